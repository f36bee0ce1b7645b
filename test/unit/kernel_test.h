/* kernel_test.h: what the tests of kernels share: buffers with guard bands, numbers to fill them with, distances in
 * ulp, and a queue whose threads are set as the test goes. */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H
#include "cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/common/philox.h"
#include "kernels/common/types.h"
#include "kernels/queue.h"

/* The queue that the test's kernels run on: 2 threads, until one of these says otherwise. */
static inline tk_queue **kernel_test_queue(void) {
    static tk_queue *q;
    return &q;
}
static inline void use_queue(int threads, int slots) {
    tk_queue_destroy(*kernel_test_queue());
    *kernel_test_queue() = tk_queue_create(threads, slots);
}
static inline void use_threads(int n) { use_queue(n, n); }
static inline tk_queue *queue(void) {
    if (!*kernel_test_queue())
        use_threads(2);
    return *kernel_test_queue();
}

/* The fault of a kernel that is called here. */
#define FAULT_OF(call) ((call), taken_fault())
static inline tk_status taken_fault(void) {
    uint32_t launch;
    return tk_queue_take_fault(queue(), &launch);
}

/* A number and a draw as the operands that kernels take. */
static inline tk_number number(double value) { return (tk_number){.otherwise = value}; }
static inline tk_seed seed_of(const tk_draw *draw) {
    static int64_t pair[2];
    pair[0] = (int64_t)draw->seed;
    pair[1] = (int64_t)draw->step;
    return (tk_seed){pair, draw->node, draw->minstd != 0, (int64_t)(draw->minstd - draw->step)};
}

#define GUARD 256 /* bytes before and after */

/* `bytes` bytes, `shift` past a 64-byte boundary, between guard bands; free with free_guarded, which checks them. */
static inline void *alloc_guarded(size_t bytes, size_t shift) {
    unsigned char *base = malloc(bytes + 3 * GUARD + 64);
    memset(base, 0xa5, bytes + 3 * GUARD + 64);
    unsigned char *data = base + GUARD + 8;
    data += 64 - (uintptr_t)data % 64 + shift;
    memcpy(data - 16, &base, sizeof base);
    return data;
}

static inline void check_guards(const void *buffer, size_t bytes) {
    const unsigned char *data = buffer;
    for (size_t i = 17; i < 128; i++)
        assert_int_equal(data[-(ptrdiff_t)i], 0xa5);
    for (size_t i = 0; i < 128; i++)
        assert_int_equal(data[bytes + i], 0xa5);
}

static inline void free_guarded(void *buffer, size_t bytes) {
    unsigned char *base;
    check_guards(buffer, bytes);
    memcpy(&base, (unsigned char *)buffer - 16, sizeof base);
    free(base);
}

/* A number in [-1, 1), by a linear congruential generator. */
static inline double any_number(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / 4503599627370496.0 - 1.0;
}

static inline void fill_f32(float *data, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)any_number(&seed);
}

/* |x - exact| in units of the last place of a float near `exact`. */
static inline double ulps(float x, double exact) {
    if (isnan(exact))
        return isnan(x) ? 0 : INFINITY;
    if ((float)exact == x)
        return 0;
    if (isinf(x) || isinf((float)exact))
        return INFINITY;
    int e;
    frexp(exact, &e);
    return fabs((double)x - exact) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}
#endif
