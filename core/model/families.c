#include "core/model/families.h"

#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/tensor_names.h"

/* clang-format off */
#define RVIT_FAMILY(id, name, flags, patches, heads)                                                                            \
    static const char NAME_##id[] = name;                                                                                       \
    enum { FLAGS_##id = (flags), PATCHES_##id = RVIT_PATCHES_##patches, HEADS_##id = RVIT_HEADS_##heads };
#include "core/model/families.def"

static const rvit_family families[] = {
#define RVIT_NAMES(id, prefix, blocks, ignored, ...)                                                                            \
    {NAME_##id, prefix, blocks, FLAGS_##id, (rvit_patch_order)PATCHES_##id, (rvit_default_heads)HEADS_##id, ignored, {__VA_ARGS__}},
#include "core/model/families.def"
};
/* clang-format on */

/* Texts in tensor names that show a feature of the model. */
static const struct {
    const char *text;
    int32_t prefix; /* 1: names begin with text, after the family's prefix; 0: names contain it */
    rvit_feature feature;
} parts[] = {
    {".attn.q_norm.", 0, RVIT_FEATURE_QK_NORM},
    {".attn.k_norm.", 0, RVIT_FEATURE_QK_NORM},
    {".attn.lambda_q1", 0, RVIT_FEATURE_DIFFERENTIAL},
    {".in_norm.", 0, RVIT_FEATURE_PARALLEL},
    {".mlp.w12.", 0, RVIT_FEATURE_GATED},
    {".mlp.w3.", 0, RVIT_FEATURE_GATED},
    {".mlp.weights_in.", 0, RVIT_FEATURE_GATED},
    {".mlp.fc1_g.", 0, RVIT_FEATURE_GATED},
    {".mlp.gate_proj.", 0, RVIT_FEATURE_GATED},
    {".ffn.gate_proj.", 0, RVIT_FEATURE_GATED},
    {".attn.inner_attn_ln.", 0, RVIT_FEATURE_SUB_NORM},
    {"relative_position_bias_table", 0, RVIT_FEATURE_RELATIVE_POSITION},
    {"rel_pos", 0, RVIT_FEATURE_RELATIVE_POSITION},
    {"rope.freqs", 1, RVIT_FEATURE_MIXED_ROPE},
    {"rope_embed.periods", 1, RVIT_FEATURE_META_NAMES},
    {"storage_tokens", 1, RVIT_FEATURE_META_NAMES},
    {"pre_logits.", 1, RVIT_FEATURE_PRE_LOGITS},
    {"patch_embed.backbone.", 1, RVIT_FEATURE_CONV_STEM},
    {"embeds.pos_embed_y", 1, RVIT_FEATURE_FACTORED},
};

static void note(rvit_unsupported *unsupported, rvit_feature feature, const char *name)
{
    char where[sizeof(rvit_shown_text) + 16];
    snprintf(where, sizeof where, "tensor '%s'", rvit_shown(name).text);
    rvit_unsupported_feature(unsupported, feature, where);
}

void rvit_family_features(const rvit_tensor_set *set, const rvit_family *family, rvit_unsupported *unsupported)
{
    const size_t n_prefix = strlen(family->prefix);
    for (int32_t i = 0; i < rvit_tensor_set_count(set); i++) {
        const char *name = rvit_tensor_set_tensor(set, i)->name;
        if (strncmp(name, "score_predictor.", 16) == 0 || strncmp(name, "text_model.", 11) == 0 || strncmp(name, "text.", 5) == 0)
            continue;
        const char *rest = strncmp(name, family->prefix, n_prefix) == 0 ? name + n_prefix : name;
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++)
            if (parts[j].prefix ? strncmp(rest, parts[j].text, strlen(parts[j].text)) == 0 : strstr(name, parts[j].text) != NULL)
                note(unsupported, parts[j].feature, name);
    }
}

int rvit_family_ignores(const rvit_family *family, const char *name)
{
    const size_t length = strlen(name);
    for (const char *text = family->ignored; *text != '\0';) {
        const int ends = *text == '*';
        text += ends;
        const size_t n = strcspn(text, " ");
        if (length >= n && strncmp(ends ? name + length - n : name, text, n) == 0)
            return 1;
        text += n + (text[n] == ' ');
    }
    return 0;
}

const char *rvit_family_name(const rvit_family *family, rvit_role role, int32_t index, char out[RVIT_NAME_SIZE])
{
    const char *name = family->names[role];
    if (name == NULL)
        return NULL;
    if (name[0] == '/')
        snprintf(out, RVIT_NAME_SIZE, "%s", name + 1);
    else if (role >= RVIT_FIRST_PREDICTOR_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "score_predictor.%d.%s", (int)index, name);
    else if (role >= RVIT_FIRST_DEEPSTACK_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "%s" RVIT_DEEPSTACK_NAME "%d.%s", family->prefix, (int)index, name);
    else if (role >= RVIT_FIRST_BLOCK_ROLE)
        snprintf(out, RVIT_NAME_SIZE, "%s%s%d.%s", family->prefix, family->blocks, (int)index, name);
    else
        snprintf(out, RVIT_NAME_SIZE, "%s%s", family->prefix, name);
    return out;
}

/* The number of this family's names that tensors have after the prefix, counting only the first block and deepstack merger. */
static int32_t n_named(const rvit_tensor_set *set, const char *prefix, const rvit_family *family)
{
    int32_t n = 0;
    for (int role = 0; role < (int)RVIT_FIRST_PREDICTOR_ROLE; role++) {
        char buffer[RVIT_NAME_SIZE], whole[RVIT_NAME_PREFIX + RVIT_NAME_SIZE];
        const char *name = rvit_family_name(family, (rvit_role)role, 0, buffer);
        snprintf(whole, sizeof whole, "%s%s", prefix, name == NULL ? "" : name);
        n += name != NULL && rvit_tensor_set_find(set, whole) >= 0;
    }
    return n;
}

/* The two sets of names that match most tensors after a prefix, and how many each matches; NULL, 0: none. */
typedef struct match {
    const rvit_family *best, *next;
    int32_t n_best, n_next;
} match;

static match find_family(const rvit_tensor_set *set, const char *prefix)
{
    match m = {NULL, NULL, 0, 0};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const int32_t n = n_named(set, prefix, &families[i]);
        if (n > m.n_best)
            m = (match){&families[i], m.best, n, m.n_best};
        else if (n > m.n_next)
            m = (match){m.best, &families[i], m.n_best, n};
    }
    return m;
}

static int has_name(const rvit_family *family, const char *name)
{
    char own[RVIT_NAME_SIZE];
    for (int role = 0; role < (int)RVIT_FIRST_PREDICTOR_ROLE; role++)
        if (rvit_family_name(family, (rvit_role)role, 0, own) != NULL && strcmp(own, name) == 0)
            return 1;
    return 0;
}

/* Logs why the best set wins: the first tensor that the runner-up has no name for. */
static void log_match(const rvit_tensor_set *set, const char *prefix, const match *m)
{
    char name[RVIT_NAME_SIZE] = "", whole[RVIT_NAME_PREFIX + RVIT_NAME_SIZE], why[3 * RVIT_NAME_SIZE] = "no other family matches";
    int32_t n_names = 0;
    int found = 0;
    for (int role = 0; role < (int)RVIT_FIRST_PREDICTOR_ROLE; role++) {
        n_names += m->best->names[role] != NULL;
        if (found || m->next == NULL || rvit_family_name(m->best, (rvit_role)role, 0, name) == NULL)
            continue;
        snprintf(whole, sizeof whole, "%s%s", prefix, name);
        found = rvit_tensor_set_find(set, whole) >= 0 && !has_name(m->next, name);
        if (found)
            snprintf(why, sizeof why, "'%s' ('%s%s') matches %d and has no name for '%s'", m->next->name, m->next->prefix, m->next->blocks,
                     (int)m->n_next, name);
    }
    if (!found && m->next != NULL)
        snprintf(why, sizeof why, "'%s' ('%s%s') matches equally many, but comes later", m->next->name, m->next->prefix, m->next->blocks);
    rvit_log(RVIT_LOG_DEBUG, "%s: family '%s' ('%s%s') matches %d of its %d names, counting one block; %s", rvit_tensor_set_path(set),
             m->best->name, m->best->prefix, m->best->blocks, (int)m->n_best, (int)n_names, why);
}

/* Extends a prefix by the next part ("module.") of the name of tensor `index`; 0: there is none. */
static int extend_prefix(const rvit_tensor_set *set, int32_t index, char prefix[RVIT_NAME_PREFIX])
{
    const char *name = rvit_tensor_set_tensor(set, index)->name;
    const char *dot = strchr(name + strlen(prefix), '.');
    if (dot == NULL || dot + 2 - name > RVIT_NAME_PREFIX)
        return 0;
    snprintf(prefix, RVIT_NAME_PREFIX, "%.*s", (int)(dot + 1 - name), name);
    return 1;
}

static int all_begin_with(const rvit_tensor_set *set, const char *prefix)
{
    for (int32_t i = 0; i < rvit_tensor_set_count(set); i++)
        if (strncmp(rvit_tensor_set_tensor(set, i)->name, prefix, strlen(prefix)) != 0)
            return 0;
    return 1;
}

/* The family whose names some tensors have after a prefix; NULL: there is none. Bounded: a file with many other names is not searched
   completely. */
static const rvit_family *find_part(const rvit_tensor_set *set, char prefix[RVIT_NAME_PREFIX])
{
    const int32_t n = rvit_tensor_set_count(set);
    int tries = 64;
    for (int32_t i = 0; i < n && tries > 0; i++) {
        if (i > 0 && prefix[0] != '\0' && strncmp(rvit_tensor_set_tensor(set, i)->name, prefix, strlen(prefix)) == 0)
            continue; /* tried */
        for (prefix[0] = '\0'; tries > 0 && extend_prefix(set, i, prefix); tries--) {
            const match m = find_family(set, prefix);
            if (m.best != NULL)
                return m.best;
        }
    }
    return NULL;
}

static rvit_status fail_unknown(const rvit_tensor_set *set)
{
    char prefix[RVIT_NAME_PREFIX] = "";
    const rvit_family *family = find_part(set, prefix);
    if (family != NULL)
        return rvit_fail(RVIT_BAD_FILE,
                         "%s: only tensors that begin with '%s' have the names of a Vision Transformer (%s); save only those",
                         rvit_tensor_set_path(set), rvit_shown(prefix).text, family->name);
    return rvit_fail(RVIT_BAD_FILE,
                     "%s: no tensor has the name of a Vision Transformer tensor in timm, DINOv2, Hugging Face, open_clip or "
                     "torchvision (the first is '%s')",
                     rvit_tensor_set_path(set), rvit_shown(rvit_tensor_set_tensor(set, 0)->name).text);
}

rvit_status rvit_family_detect(const rvit_tensor_set *set, char out_prefix[RVIT_NAME_PREFIX], const rvit_family **out_family)
{
    char prefix[RVIT_NAME_PREFIX] = "";
    out_prefix[0] = '\0';
    if (rvit_tensor_set_count(set) == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: the checkpoint holds no tensors", rvit_tensor_set_path(set));
    match winner = find_family(set, "");
    while (extend_prefix(set, 0, prefix) && all_begin_with(set, prefix)) {
        const match m = find_family(set, prefix);
        if (m.n_best > winner.n_best) {
            winner = m;
            memcpy(out_prefix, prefix, RVIT_NAME_PREFIX);
        }
    }
    if (winner.best == NULL)
        return fail_unknown(set);
    *out_family = winner.best;
    log_match(set, out_prefix, &winner);
    return RVIT_OK;
}
