/* test_available.c: what is read from /proc and /sys about memory, from made-up trees of both kinds of control groups.
 */
#include "test/unit/cases.h"
#include "runtime/files/files.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
// clang-format on

static char root[64];

/* Writes a file of the tree, with the folders on its way. */
static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = 0;
        mkdir(full, 0700);
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_available_XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int remove_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void expect(uint64_t bytes, const char *from) {
    const char *got = NULL;
    uint64_t usable, available = rt_available_memory(root, &usable, &got);
    assert_int_equal(available, bytes);
    assert_non_null(strstr(got, from));
}

TEST_WITH(nothing_told, make_root, remove_root) { expect(UINT64_MAX, "address space"); }

TEST_WITH(machine, make_root, remove_root) {
    put("/proc/meminfo", "MemTotal:  4096 kB\nMemFree: 1 kB\nMemAvailable:   1000 kB\n");
    expect(1024000, "machine");
    put("/proc/self/cgroup", "nonsense\n0:\n\n0::/\n");
    expect(1024000, "machine");
}

TEST_WITH(version_2, make_root, remove_root) {
    put("/proc/meminfo", "MemAvailable: 1000 kB\n");
    put("/proc/self/cgroup", "0::/above/group\n");
    put("/sys/fs/cgroup/above/group/memory.max", "max\n");
    put("/sys/fs/cgroup/above/group/memory.current", "300000\n");
    expect(1024000, "machine");
    put("/sys/fs/cgroup/above/memory.max", "500000\n");
    put("/sys/fs/cgroup/above/memory.current", "400000\n");
    expect(100000, "control group");
    put("/sys/fs/cgroup/above/memory.stat", "anon 1\nactive_file 7\ninactive_file 50000\n");
    expect(150000, "control group");
    put("/sys/fs/cgroup/above/group/memory.max", "299999\n");
    expect(0, "control group");
}

TEST_WITH(version_1, make_root, remove_root) {
    put("/proc/self/cgroup", "4:memory:/not/mounted/here\n3:cpu:/\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
    expect(9223372036854771712u - 5000, "control group");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    expect(65000, "control group");
}

TEST_WITH(refusal, make_root, remove_root) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(rt_check_memory(&ctx, "nothing", 0), TC_OK);
    /* What fits to the last byte does not fit: 20 GiB of 21 are refused, 19 are not. */
    assert_true(rt_usable_memory(21ull << 30) < 20ull << 30);
    assert_true(rt_usable_memory(21ull << 30) > 19ull << 30);
    assert_int_equal(rt_usable_memory(0), 0);
    assert_int_equal(rt_check_memory(&ctx, "the arena", 1ull << 62), TC_LIMIT);
    assert_non_null(strstr(ctx.diags[0].message, "the arena takes 4398046511104.0 MiB, but only "));
    tc_ctx_fini(&ctx);
}

#define OWN_LIMIT (INT64_C(64) << 40) /* above what sanitizers map */

/* So many bytes are left of it. */
static void leave(int64_t bytes) {
    char text[64];
    snprintf(text, sizeof text, "%lld 0 0 0 0 0 0\n", (long long)(OWN_LIMIT - bytes) / sysconf(_SC_PAGESIZE));
    put("/proc/self/statm", text);
}

/* A limit of this process alone is used but for 16 MiB, or half where that is less. */
TEST_WITH(own_limit, make_root, remove_root) {
    const char *from;
    uint64_t usable;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = (struct rlimit){.rlim_cur = OWN_LIMIT, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    leave(INT64_C(32) << 30);
    assert_int_equal(rt_available_memory(root, &usable, &from), UINT64_C(32) << 30);
    assert_int_equal(usable, (UINT64_C(32) << 30) - (16 << 20));
    assert_string_equal(from, "under ulimit -v");
    leave(24 << 20);
    assert_int_equal(rt_available_memory(root, &usable, &from), 24 << 20);
    assert_int_equal(usable, 12 << 20);
    leave(INT64_C(32) << 30);
    put("/proc/meminfo", "MemAvailable: 34000000 kB\n"); /* more, but a sixteenth of it stays */
    assert_int_equal(rt_available_memory(root, &usable, &from), UINT64_C(34816000000));
    assert_int_equal(usable, UINT64_C(34816000000) / 16 * 15);
    assert_string_equal(from, "on this machine");
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}
