#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choices.h"
#include "failure.h"

static const struct option_row rows[] = {OPTION_PRUNE_ROWS(struct setting, desc, 0)};
enum { N_ROWS = sizeof rows / sizeof rows[0] };
static const struct option_table table = {"raggedvit", "", rows, N_ROWS, offsetof(struct setting, given), failure_note};

static const char blanks[] = " \t\r\n";

/* Lists parameters by their command line names: "keep, blocks". */
static void list_parameters(int bits, char *out, size_t out_size)
{
    out[0] = 0;
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].given & bits)
            append_text(out, out_size, "%s%s", out[0] ? ", " : "", rows[i].name);
}

static TRITONSERVER_Error *refuse(const struct setting *setting, const char *sentence)
{
    return invalid("policy '%s': %s", setting->text, sentence);
}

/* Looks up the policy and checks its parameters. */
static TRITONSERVER_Error *resolve(struct setting *self, const char *policy)
{
    char taken[256], extra[256], sentence[640];
    int32_t type;
    if (rvit_enum_from_name(RVIT_ENUM_PRUNE, policy, &type) != RVIT_OK)
        return refuse(self, rvit_status_detail());
    self->policy = (rvit_prune_info)RVIT_PRUNE_INFO_INIT;
    for (int32_t i = 0; rvit_prune_list(i, &self->policy) == RVIT_OK && self->policy.type != (rvit_prune_type)type; i++)
        ;
    self->desc.type = (rvit_prune_type)type;
    if (type == RVIT_PRUNE_MASK)
        return refuse(self, "is not supported by the server, which gets no masks");
    if (self->given & ~self->policy.parameters) {
        list_parameters(self->given & ~self->policy.parameters, extra, sizeof extra);
        list_parameters(self->policy.parameters, taken, sizeof taken);
        snprintf(sentence, sizeof sentence, "%s is not a parameter of it, expected %s", extra, taken[0] ? taken : "none");
        return refuse(self, sentence);
    }
    if (self->policy.parameters & RVIT_PRUNE_THRESHOLD && self->policy.default_threshold < 0 && !(self->given & RVIT_PRUNE_THRESHOLD))
        return refuse(self, "it needs threshold");
    if (self->given & RVIT_PRUNE_KEEP && self->given & RVIT_PRUNE_MASS)
        return refuse(self, "it takes keep or mass, not both");
    self->keep = !(self->policy.parameters & RVIT_PRUNE_KEEP) ? -1 : self->desc.keep >= 0 ? self->desc.keep : self->policy.default_keep;
    return NULL;
}

/* "keep=0.5" */
static TRITONSERVER_Error *parse_parameter(struct setting *self, char *word)
{
    char known[256], sentence[640];
    char *value = strchr(word, '=');
    if (value)
        *value++ = 0;
    for (int i = 0; value && i < N_ROWS; i++)
        if (strcmp(rows[i].name, word) == 0)
            return option_table_set(&table, &rows[i], value, self) ? NULL : failure_of_complaint(self->text);
    list_parameters(-1, known, sizeof known);
    snprintf(sentence, sizeof sentence, "'%.100s' is not NAME=VALUE with one of %s", word, known);
    return refuse(self, sentence);
}

/* Parses a policy with parameters, "l2 keep=0.5". Modifies text. */
static TRITONSERVER_Error *parse(struct setting *self, char *text)
{
    char *rest = NULL;
    text += strspn(text, blanks);
    for (size_t n = strlen(text); n > 0 && strchr(blanks, text[n - 1]); n--)
        text[n - 1] = 0;
    snprintf(self->text, sizeof self->text, "%s", text);
    const char *policy = strtok_r(text, blanks, &rest);
    for (char *word; (word = strtok_r(NULL, blanks, &rest));)
        TRY(parse_parameter(self, word));
    return resolve(self, policy ? policy : "");
}

static TRITONSERVER_Error *parse_all(struct settings *self, char *texts)
{
    char *rest = NULL;
    for (char *text = strtok_r(texts, ";", &rest); text; text = strtok_r(NULL, ";", &rest)) {
        if (!text[strspn(text, blanks)])
            continue;
        if (self->n == MAX_SETTINGS)
            return invalid("parameter settings: more than %d policies, including that of 'policy'", MAX_SETTINGS);
        struct setting *setting = &self->list[self->n++];
        *setting = (struct setting){.desc = RVIT_PRUNE_DESC_INIT};
        TRY(parse(setting, text));
    }
    return NULL;
}

/* Describes the setting of the separate parameters: "l2 keep=0.5". Without blocks, which requests cannot choose. */
static void describe_first(struct setting *self, const char *policy)
{
    if (self->given & RVIT_PRUNE_KEEP)
        snprintf(self->text, sizeof self->text, "%s keep=%g", policy, self->desc.keep);
    else
        snprintf(self->text, sizeof self->text, "%s", policy);
}

TRITONSERVER_Error *settings_make(struct settings *self, const char *policy, const struct setting *first, const char *further)
{
    TRITONSERVER_Error *error = NULL;
    self->list[0] = *first;
    self->n = 1;
    describe_first(&self->list[0], policy);
    TRY(resolve(&self->list[0], policy));
    if (further) {
        char *copy = strdup(further);
        error = copy ? parse_all(self, copy) : failure_out_of_memory();
        free(copy);
    }
    self->text[0] = 0;
    for (int32_t i = 0; !error && i < self->n; i++)
        append_text(self->text, sizeof self->text, "%s%s", i > 0 ? "; " : "", self->list[i].text);
    return error;
}

int32_t settings_find(const struct settings *self, const struct setting_choice *choice)
{
    const char *policy = choice->policy ? choice->policy : self->list[0].policy.name;
    for (int32_t i = 0; i < self->n; i++)
        if (strcmp(self->list[i].policy.name, policy) == 0 && (choice->keep < 0 || fabs(self->list[i].keep - choice->keep) < 1e-9))
            return i;
    return -1;
}
