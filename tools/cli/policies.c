/* raggedvit policies: lists the pruning policies. */
#include <stdio.h>
#include <string.h>

#include "command_list.h"
#include "json.h"
#include "options.h"

struct listed {
    rvit_prune_info info;
    char options[160];
    int width; /* of the options in the first line */
};

enum { OPTIONS_WIDTH = 36 }; /* wider options go to a second line */

/* "3,6,9", "3", "3..last" up to the last block, or "last-1" for the block before the last. */
static void describe_blocks(const rvit_prune_info *info, char *out, size_t out_size)
{
    out[0] = 0;
    if (info->n_default_blocks < 0)
        snprintf(out, out_size, "%d..last", info->default_blocks[0]);
    for (int32_t i = 0; i < info->n_default_blocks; i++) {
        const int32_t block = info->default_blocks[i];
        append_text(out, out_size, "%s%s", i ? "," : "", block < 0 ? "last" : "");
        if (block != -1)
            append_text(out, out_size, "%d", block < 0 ? block + 1 : block);
    }
}

/* The option with its default as on a command line, or its argument in capitals without a default. */
static void describe_option(const rvit_prune_info *info, const struct prune_parameter *parameter, char *out, size_t out_size)
{
    char blocks[64];
    const double default_value = prune_default(parameter, info);
    if (parameter->bit == RVIT_PRUNE_BLOCKS) {
        describe_blocks(info, blocks, sizeof blocks);
        snprintf(out, out_size, "--blocks %s", blocks);
    } else if (default_value >= 0) {
        snprintf(out, out_size, "--%s %g", parameter->option, default_value);
    } else {
        snprintf(out, out_size, "%s", parameter->absent);
    }
}

static void describe_options(struct listed *policy)
{
    policy->options[0] = 0;
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++)
        if (policy->info.parameters & (int)prune_parameters[i].bit) {
            char option[80];
            describe_option(&policy->info, &prune_parameters[i], option, sizeof option);
            append_text(policy->options, sizeof policy->options, "%s%s", policy->options[0] ? " " : "", option);
        }
    if (policy->info.type == RVIT_PRUNE_MASK)
        append_text(policy->options, sizeof policy->options, " --mask FILE");
    policy->width = (int)strlen(policy->options);
    for (int i = policy->width; policy->width > OPTIONS_WIDTH && i > 0; i--)
        if (policy->options[i] == ' ' && strchr("-[", policy->options[i + 1]))
            policy->width = i;
}

static int width_of(int width, const char *text)
{
    const int length = (int)strlen(text);
    return length > width ? length : width;
}

static void print_table(const struct listed *policies, int32_t n)
{
    static const char *const titles[] = {"policy", "options and defaults", "where", "source"};
    int widths[3];
    for (int c = 0; c < 3; c++)
        widths[c] = (int)strlen(titles[c]);
    for (int32_t i = 0; i < n; i++) {
        widths[0] = width_of(widths[0], policies[i].info.name);
        widths[1] = policies[i].width > widths[1] ? policies[i].width : widths[1];
        widths[2] = width_of(widths[2], policies[i].info.site);
    }
    const int source_column = widths[0] + widths[1] + widths[2] + 6;
    printf("%-*s  %-*s  %-*s  %s\n", widths[0], titles[0], widths[1], titles[1], widths[2], titles[2], titles[3]);
    for (int32_t i = 0; i < n; i++) {
        const rvit_prune_info *info = &policies[i].info;
        printf("\n%-*s  %-*.*s  %-*s  ", widths[0], info->name, widths[1], policies[i].width, policies[i].options, widths[2], info->site);
        wrap_print(info->source, source_column, source_column);
        if (policies[i].options[policies[i].width])
            printf("%*s%s\n", widths[0] + 2, "", policies[i].options + policies[i].width + 1);
        printf("%*s", widths[0] + 2, "");
        wrap_print(info->summary, widths[0] + 2, widths[0] + 2);
    }
}

static json_t *default_to_json(const rvit_prune_info *info, const struct prune_parameter *parameter)
{
    const double default_value = prune_default(parameter, info);
    if (parameter->bit == RVIT_PRUNE_BLOCKS)
        return json_integers(info->default_blocks, info->n_default_blocks < 0 ? 1 : info->n_default_blocks);
    if (parameter->bit == RVIT_PRUNE_SEED)
        return json_integer(0);
    return default_value < 0 ? json_null() : parameter->whole ? json_integer((json_int_t)default_value) : json_number(default_value);
}

static json_t *policy_to_json(const rvit_prune_info *info)
{
    json_t *parameters = json_array(), *defaults = json_object();
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++)
        if (info->parameters & (int)prune_parameters[i].bit) {
            json_array_append_new(parameters, json_string(prune_parameters[i].option));
            json_object_set_new(defaults, prune_parameters[i].option, default_to_json(info, &prune_parameters[i]));
        }
    if (info->type == RVIT_PRUNE_MASK)
        json_array_append_new(parameters, json_string("mask"));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:b}", "name", info->name, "summary", info->summary, "source", info->source, "site",
                     info->site, "parameters", parameters, "defaults", defaults, "blocks_to_last", info->n_default_blocks < 0);
}

int run_policies(const struct options *options)
{
    struct listed policies[PRUNE_MAX_POLICIES];
    int32_t n = 0;
    for (; n < PRUNE_MAX_POLICIES; n++) {
        policies[n].info = (rvit_prune_info)RVIT_PRUNE_INFO_INIT;
        if (rvit_prune_list(n, &policies[n].info) != RVIT_OK)
            break;
        describe_options(&policies[n]);
    }
    if (!options->json) {
        print_table(policies, n);
        return EXIT_OK;
    }
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(array, policy_to_json(&policies[i].info));
    json_print_line(json_pack("{s:s, s:o}", "version", rvit_version(), "policies", array));
    return EXIT_OK;
}
