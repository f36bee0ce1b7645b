/* test_safetensors.c: what files of tensors cannot show of their writer: arrays that it refuses, and what it does to a
 * file that is there when it fails. The rest is compared with a reader and writer in Python: test/io. */
#define OWN_MAIN
#include "test/unit/cases.h"
#include "runtime/files/files.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
// clang-format off
// clang-format on

static char folder[] = "/tmp/test_safetensors_XXXXXX", path[64];
static float elements[4096] = {1, 2, 3};
static const int64_t dims[] = {3}, many[] = {4096};

static rt_array named(const char *name) {
    return (rt_array){.name = name, .tensor = {TEMPO_FLOAT, 1, dims, elements, 3 * sizeof(float)}};
}

static void check_refused(const rt_array *arrays, size_t n, const tc_pair *metadata, size_t n_metadata,
                          tc_status expected, const char *message) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(rt_safetensors_write(&ctx, path, arrays, n, metadata, n_metadata), expected);
    assert_int_equal(ctx.n_diags, 1);
    assert_non_null(strstr(ctx.diags[0].message, message));
    assert_int_equal(access(path, F_OK), -1);
    tc_ctx_fini(&ctx);
}

TEST(refused_arrays) {
    const rt_array twice[] = {named("a"), named("a")}, reserved = named("__metadata__"), odd = named("\xff");
    rt_array untyped = named("a");
    untyped.tensor.dtype = (tempo_dtype)8;
    const tc_pair pairs[] = {{"k", "v"}, {"k", "w"}}, bad = {"k", "\xc0\x80"};
    check_refused(twice, 2, NULL, 0, TC_BAD_INPUT, "tensor 'a': two have this name");
    check_refused(&reserved, 1, NULL, 0, TC_BAD_INPUT, "no tensor may have this name");
    check_refused(&odd, 1, NULL, 0, TC_BAD_INPUT, "its name is not UTF-8");
    check_refused(&untyped, 1, NULL, 0, TC_UNSUPPORTED, "tensor 'a': the format has no type");
    check_refused(twice, 1, pairs, 2, TC_BAD_INPUT, "metadata 'k': there are two");
    check_refused(twice, 1, &bad, 1, TC_BAD_INPUT, "metadata 'k': it is not UTF-8");
}

TEST(found_by_name) {
    const rt_array arrays[] = {named("a"), named("b")};
    const tc_pair pair = {"format", "pt"};
    tc_ctx ctx;
    rt_safetensors s;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(rt_safetensors_write(&ctx, path, arrays, 2, &pair, 1), TC_OK);
    assert_int_equal(rt_safetensors_open(&ctx, path, &s), TC_OK);
    assert_ptr_equal(rt_safetensors_find(&s, "b"), &s.arrays[1]);
    assert_null(rt_safetensors_find(&s, "c"));
    assert_memory_equal(s.arrays[1].tensor.data, elements, 3 * sizeof(float));
    assert_string_equal(s.metadata[0].value, "pt");
    rt_safetensors_close(&s);
    tc_ctx_fini(&ctx);
}

/* A file that may not become so large: the old one stays, and there is no other beside it. */
TEST(no_room) {
    const rt_array small = named("a"),
                   large = {.name = "a", .tensor = {TEMPO_FLOAT, 1, many, elements, sizeof elements}};
    const struct rlimit limit = {4096, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    tc_ctx ctx;
    rt_safetensors s;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(rt_safetensors_write(&ctx, path, &small, 1, NULL, 0), TC_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    tc_status status = rt_safetensors_write(&ctx, path, &large, 1, NULL, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(status, TC_IO);
    assert_non_null(strstr(ctx.diags[0].message, "File too large"));
    assert_int_equal(rt_safetensors_open(&ctx, path, &s), TC_OK);
    assert_int_equal(s.arrays[0].tensor.bytes, 3 * sizeof(float));
    rt_safetensors_close(&s);
    tc_ctx_fini(&ctx);
    assert_int_equal(unlink(path), 0);
}

static int begin(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/w", folder);
    return 0;
}

static int end(void **state) { return (void)state, rmdir(folder); } /* fails where something is left */

int main(void) { return run_all_tests(begin, end); }
