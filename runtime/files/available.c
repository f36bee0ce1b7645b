/* available.c: memory that is left, by Linux's files in /proc and /sys. Missing files set no limit. */
#include "available.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TEXT 8192
#define OWN_RESERVE (UINT64_C(16) << 20)

typedef struct least {
    uint64_t bytes, usable;
    const char *from, *kept;
} least;

/* A sixteenth of memory that others take from, too. */
static void consider(least *l, uint64_t bytes, const char *from) {
    uint64_t usable = rt_usable_memory(bytes);
    if (usable < l->usable)
        *l = (least){bytes, usable, from, "a sixteenth"};
}

/* Of memory that only this process takes from. Once it has its threads and the code of products, little comes later
 * outside of the plan, such as the buffers of oneDNN and of files: 6 MiB were seen. */
static void consider_own(least *l, uint64_t bytes, const char *from) {
    bool is_small = bytes / 2 <= OWN_RESERVE;
    uint64_t usable = is_small ? bytes / 2 : bytes - OWN_RESERVE;
    if (usable < l->usable)
        *l = (least){bytes, usable, from, is_small ? "half" : "16 MiB"};
}

/* The beginning of a small file; false when it cannot be read. */
static bool read_text(const char *root, const char *folder, const char *name, char text[TEXT]) {
    char path[3 * TEXT];
    if (snprintf(path, sizeof path, "%s%s%s", root, folder, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, TEXT - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = 0;
    return n > 0;
}

/* The number after `key` at the beginning of a line; false where there is none ("max" for no limit). */
static bool number_of(const char *text, const char *key, uint64_t *out_number) {
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        char *end;
        if (strncmp(line, key, n) != 0)
            continue;
        *out_number = strtoull(line + n, &end, 10);
        return end > line + n;
    }
    return false;
}

/* --- control groups --------------------------------------------------------------------------- */

typedef struct cgroup_kind {
    const char *mount, *limit, *usage, *cache;
} cgroup_kind;

static const cgroup_kind version1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                     "total_inactive_file "};
static const cgroup_kind version2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file "};

static void consider_cgroup(least *l, const char *root, const cgroup_kind *kind, const char *folder) {
    char text[TEXT];
    uint64_t limit = 0, usage = 0, cache = 0;
    if (!read_text(root, folder, kind->limit, text) || !number_of(text, "", &limit) ||
        !read_text(root, folder, kind->usage, text) || !number_of(text, "", &usage))
        return;
    if (read_text(root, folder, "/memory.stat", text))
        number_of(text, kind->cache, &cache);
    usage -= cache < usage ? cache : usage;
    consider(l, limit > usage ? limit - usage : 0, "in this control group");
}

/* The group and all above it: each may have a limit. In a container the path may lie outside of the mounted part; then
 * only the topmost folder counts. */
static void consider_cgroups(least *l, const char *root, const cgroup_kind *kind, const char *path) {
    char folder[2 * TEXT];
    size_t top = strlen(kind->mount);
    snprintf(folder, sizeof folder, "%s%s", kind->mount, path[0] == '/' && path[1] ? path : "");
    while (consider_cgroup(l, root, kind, folder), strlen(folder) > top)
        *strrchr(folder, '/') = 0;
}

/* Lines are ID:CONTROLLERS:PATH; those of version 2 name no controllers. */
static void consider_all_cgroups(least *l, const char *root) {
    char text[TEXT];
    if (!read_text(root, "/proc/self/cgroup", "", text))
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        controllers++;
        if (*controllers == 0)
            consider_cgroups(l, root, &version2, path);
        else if (strcmp(controllers, "memory") == 0)
            consider_cgroups(l, root, &version1, path);
    }
}

/* --- all of them ------------------------------------------------------------------------------ */

/* A ulimit, less the memory that the process has taken of it: a field of /proc/self/statm, in pages. */
static void consider_rlimit(least *l, const char *root, int which, int field, const char *from) {
    struct rlimit limit;
    char text[TEXT];
    if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        !read_text(root, "/proc/self/statm", "", text))
        return;
    char *at = text;
    uint64_t pages = 0;
    for (int i = 0; i <= field; i++)
        pages = strtoull(at, &at, 10);
    uint64_t taken = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    consider_own(l, limit.rlim_cur > taken ? limit.rlim_cur - taken : 0, from);
}

static least least_of_all(const char *root) {
    least l = {UINT64_MAX, UINT64_MAX, "in the address space", "nothing"};
    char text[TEXT];
    uint64_t kibibytes;
    if (read_text(root, "/proc/meminfo", "", text) && number_of(text, "MemAvailable:", &kibibytes))
        consider(&l, kibibytes << 10, "on this machine");
    consider_all_cgroups(&l, root);
    consider_rlimit(&l, root, RLIMIT_AS, 0, "under ulimit -v");
    consider_rlimit(&l, root, RLIMIT_DATA, 5, "under ulimit -d");
    return l;
}

uint64_t rt_available_memory(const char *root, uint64_t *out_usable, const char **out_from) {
    least l = least_of_all(root);
    *out_usable = l.usable;
    *out_from = l.from;
    return l.bytes;
}

uint64_t rt_usable_memory(uint64_t available) { return available - available / 16; }

static tc_status check_usable(tc_ctx *ctx, const char *what, uint64_t bytes, const least *l) {
    if (bytes <= l->usable)
        return TC_OK;
    return tc_error(ctx, TC_LIMIT, NULL,
                    "not enough memory: %s takes %.1f MiB, but only %.1f MiB are free %s, "
                    "and %s of that is left alone",
                    what, (double)bytes / 0x1p20, (double)l->bytes / 0x1p20, l->from, l->kept);
}

tc_status rt_check_usable(tc_ctx *ctx, const char *what, uint64_t bytes, uint64_t left, const char *where) {
    least l = {left, rt_usable_memory(left), where, "a sixteenth"};
    return check_usable(ctx, what, bytes, &l);
}

tc_status rt_check_memory(tc_ctx *ctx, const char *what, uint64_t bytes) {
    least l = least_of_all("");
    return check_usable(ctx, what, bytes, &l);
}
