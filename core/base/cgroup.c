#include "core/base/cgroup.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/proc_file.h"

/* Longer lines and paths are skipped: those of control groups are short, and threads may have small stacks. */
enum { LINE = 2048, FOLDER = 1024 };

/* Called for the folder of each group. version: 1 or 2. */
typedef void (*group_fn)(const char *root, const char *folder, int version, void *context);

/* Whether `name` is an item of the list "a,b,c", which ends at a colon or at the end of the text. */
static int is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (;;) {
        const size_t n = strcspn(list, ",:");
        if (n == length && memcmp(list, name, n) == 0)
            return 1;
        if (list[n] != ',')
            return 0;
        list += n + 1;
    }
}

/* The part of path below mount_root: "" for the root itself, NULL if path is not below. */
static const char *below(const char *path, const char *mount_root)
{
    const size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(path, mount_root, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return NULL;
    return strcmp(path + length, "/") == 0 ? path + length + 1 : path + length;
}

/* Decodes in place: mountinfo writes space, tab, newline and backslash as \040 and so on. */
static void unescape(char *text)
{
    char *out = text;
    for (; *text != '\0'; out++) {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' && text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
            *out = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
            text += 4;
        } else {
            *out = *text++;
        }
    }
    *out = '\0';
}

typedef struct mount {
    char *root, *point, *type, *options;
} mount;

/* Parses a line of mountinfo: ID PARENT DEVICE ROOT POINT OPTIONS [TAG ...] - TYPE SOURCE OPTIONS. */
static int parse_mount(char *line, mount *out)
{
    char *fields[64], *rest = NULL;
    int n = 0, dash = 0;
    for (char *field = strtok_r(line, " ", &rest); field != NULL && n < 64; field = strtok_r(NULL, " ", &rest)) {
        if (dash == 0 && n >= 6 && strcmp(field, "-") == 0)
            dash = n;
        fields[n++] = field;
    }
    if (dash == 0 || n < dash + 4)
        return 0;
    *out = (mount){fields[3], fields[4], fields[dash + 1], fields[dash + 3]};
    unescape(out->root);
    unescape(out->point);
    return 1;
}

/* Calls fn for the group at `path` and for its ancestors that this mount shows. */
static void visit_mount(const char *root, const mount *m, const char *path, int version, group_fn fn, void *context)
{
    const char *rest = below(path, m->root);
    char folder[FOLDER];
    const size_t top = strlen(m->point);
    if (rest == NULL || top + strlen(rest) >= sizeof folder)
        return;
    memcpy(folder, m->point, top);
    memcpy(folder + top, rest, strlen(rest) + 1);
    for (char *cut = folder;; *cut = '\0') {
        fn(root, folder, version, context);
        cut = strrchr(folder + top, '/');
        if (cut == NULL)
            return;
    }
}

static void visit_group(const char *root, const char *controller, const char *path, int version, group_fn fn, void *context)
{
    FILE *file = rvit_proc_open(root, "/proc/self", "mountinfo");
    if (file == NULL)
        return;
    char line[LINE];
    mount m;
    while (rvit_proc_line(file, line, sizeof line))
        if (parse_mount(line, &m) && strcmp(m.type, version == 2 ? "cgroup2" : "cgroup") == 0 &&
            (version == 2 || is_listed(m.options, controller)))
            visit_mount(root, &m, path, version, fn, context);
    fclose(file);
}

/* Calls fn for every group in which the controller may limit the process. A line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH;
   version 2 has number 0 and names no controllers. */
static void visit_groups(const char *root, const char *controller, group_fn fn, void *context)
{
    FILE *file = rvit_proc_open(root, "/proc/self", "cgroup");
    if (file == NULL)
        return;
    char line[LINE];
    while (rvit_proc_line(file, line, sizeof line)) {
        const char *controllers = strchr(line, ':');
        const char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        /* /.. is outside the namespace: no mount shows it. */
        if (path == NULL || path[1] != '/' || strncmp(path + 1, "/..", 3) == 0)
            continue;
        if (strncmp(line, "0::", 3) == 0)
            visit_group(root, controller, path + 1, 2, fn, context);
        else if (is_listed(controllers + 1, controller))
            visit_group(root, controller, path + 1, 1, fn, context);
    }
    fclose(file);
}

static void processors_of(const char *root, const char *folder, int version, void *context)
{
    int64_t *min = context, quota = 0, period = 0;
    if (version == 2) {
        FILE *file = rvit_proc_open(root, folder, "cpu.max");
        char line[64] = "", *end = NULL;
        if (file == NULL)
            return;
        if (rvit_proc_line(file, line, sizeof line)) {
            quota = strtoll(line, &end, 10); /* "max 100000" means no quota and parses as 0 */
            period = strtoll(end, NULL, 10);
        }
        fclose(file);
    } else if (!rvit_proc_number(root, folder, "cpu.cfs_quota_us", "", &quota) ||
               !rvit_proc_number(root, folder, "cpu.cfs_period_us", "", &period)) {
        return;
    }
    if (quota <= 0 || period <= 0) /* version 1: -1 means no quota */
        return;
    const int64_t processors = quota / period + (quota % period != 0);
    if (processors < *min)
        *min = processors;
}

int64_t rvit_cgroup_processors(const char *root)
{
    int64_t min = INT64_MAX;
    visit_groups(root, "cpu", processors_of, &min);
    return min;
}

/* File names of one version of the memory controller. */
typedef struct memory_files {
    const char *limit, *usage, *active_file, *inactive_file, *swap_limit, *swap_usage;
} memory_files;

static const memory_files files_of[] = {
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file ", "total_inactive_file ", "memory.memsw.limit_in_bytes",
     "memory.memsw.usage_in_bytes"},
    {"memory.max", "memory.current", "active_file ", "inactive_file ", "memory.swap.max", "memory.swap.current"}};

/* a + b, saturating; neither is negative. */
static int64_t add(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t left_of(int64_t limit, int64_t usage)
{
    return limit > usage ? limit - usage : 0;
}

typedef struct memory_search {
    int64_t swap_free, min;
} memory_search;

static void memory_of(const char *root, const char *folder, int version, void *context)
{
    memory_search *search = context;
    const memory_files *files = &files_of[version - 1];
    int64_t limit, usage, active = 0, inactive = 0, swap_limit, swap_usage;
    if (!rvit_proc_number(root, folder, files->limit, "", &limit) || !rvit_proc_number(root, folder, files->usage, "", &usage) ||
        limit < 0 || usage < 0)
        return;
    /* The usage includes cached files, which the kernel drops before it runs out of memory. */
    (void)rvit_proc_number(root, folder, "memory.stat", files->active_file, &active);
    (void)rvit_proc_number(root, folder, "memory.stat", files->inactive_file, &inactive);
    const int64_t cache = active < 0 || inactive < 0 ? 0 : add(active, inactive);
    const int64_t used = left_of(usage, cache);
    int64_t swap = search->swap_free, max = INT64_MAX;
    if (rvit_proc_number(root, folder, files->swap_limit, "", &swap_limit) &&
        rvit_proc_number(root, folder, files->swap_usage, "", &swap_usage) && swap_limit >= 0 && swap_usage >= 0) {
        if (version == 1) /* the limit of memory and swap together */
            max = left_of(swap_limit, left_of(swap_usage, cache));
        else if (left_of(swap_limit, swap_usage) < swap)
            swap = left_of(swap_limit, swap_usage);
    }
    const int64_t left = add(left_of(limit, used), swap);
    if (left < max)
        max = left;
    if (max < search->min)
        search->min = max;
}

int64_t rvit_cgroup_memory(const char *root, int64_t swap_free)
{
    memory_search search = {swap_free, INT64_MAX};
    visit_groups(root, "memory", memory_of, &search);
    return search.min;
}
