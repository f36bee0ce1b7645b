/* test_pack.c: buffers that are live together never overlap, on random lifetimes, and the lower bound is the bound:
 * both are counted here step by step, byte by byte, which rt_pack does not do. */
#include "runtime/pack.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static uint32_t state = 1;
static uint32_t next(uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(state >> 8) * below) >> 24);
}

#define STEPS 60
#define MOST 80

static void random_buffers(rt_buffer *buffers, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t first = next(STEPS), last = first + next(STEPS - first + 1);
        buffers[i] = (rt_buffer){next(5) == 0 ? 0 : next(5000), first, last, 0};
    }
}

static size_t live_at(const rt_buffer *buffers, size_t n, uint32_t step) {
    size_t live = 0;
    for (size_t i = 0; i < n; i++)
        if (buffers[i].first <= step && step <= buffers[i].last)
            live += (buffers[i].bytes + 63) / 64 * 64;
    return live;
}

static void check_packing(const rt_buffer *buffers, size_t n, const rt_packing *packing) {
    for (uint32_t step = 0; step <= STEPS; step++) {
        unsigned char *taken = calloc(packing->bytes + 1, 1);
        assert_non_null(taken);
        for (size_t i = 0; i < n; i++) {
            if (step < buffers[i].first || step > buffers[i].last)
                continue;
            assert_int_equal(buffers[i].offset % 64, 0);
            assert_true(buffers[i].offset + buffers[i].bytes <= packing->bytes);
            for (size_t b = 0; b < buffers[i].bytes; b++)
                assert_int_equal(taken[buffers[i].offset + b]++, 0);
        }
        free(taken);
    }
}

static void test_no_overlap_and_bound(void **unused) {
    (void)unused;
    for (int round = 0; round < 30; round++) {
        rt_buffer buffers[MOST];
        rt_packing packing;
        size_t n = next(MOST + 1), bound = 0;
        random_buffers(buffers, n);
        assert_int_equal(rt_pack(buffers, n, STEPS, &packing), 0);
        check_packing(buffers, n, &packing);
        for (uint32_t step = 0; step <= STEPS; step++)
            bound = live_at(buffers, n, step) > bound ? live_at(buffers, n, step) : bound;
        assert_int_equal(packing.lower_bound, bound);
        assert_true(packing.bytes >= bound);
        assert_true(packing.bytes <= bound + bound / 2);
        if (bound > 0)
            assert_int_equal(live_at(buffers, n, packing.peak), bound);
    }
}

/* A chain of operations holds two buffers at a time: the arena is two buffers however long the chain is. */
static void test_chain_reuses(void **unused) {
    (void)unused;
    rt_buffer buffers[100];
    rt_packing packing;
    for (uint32_t i = 0; i < 100; i++)
        buffers[i] = (rt_buffer){1000, i, i + 1, 0};
    assert_int_equal(rt_pack(buffers, 100, 100, &packing), 0);
    assert_int_equal(packing.bytes, 2 * 1024);
    assert_int_equal(packing.lower_bound, 2 * 1024);
}

static void test_too_big_is_refused(void **unused) {
    (void)unused;
    rt_buffer buffers[] = {{SIZE_MAX / 2, 0, 1, 0}, {SIZE_MAX / 2, 0, 1, 0}, {SIZE_MAX - 8, 0, 0, 0}};
    rt_packing packing;
    assert_int_equal(rt_pack(buffers, 2, 1, &packing), -1);
    assert_int_equal(rt_pack(buffers + 2, 1, 1, &packing), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_overlap_and_bound),
        cmocka_unit_test(test_chain_reuses),
        cmocka_unit_test(test_too_big_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
