/* test_queue.c: loops on a queue: every index once, shares in whole grains, threads counted from 0 and no more than the
 * queue has (or has slots for), from the main thread as from inside a team of OpenMP's, whose settings stay. */
#include "test/unit/kernel_test.h"
#include "kernels/common/parallel.h"
#ifdef _OPENMP
#include <omp.h>
#endif

#define MOST 1000

typedef struct seen {
    int64_t n, grain;
    int threads;
    unsigned char times[MOST]; /* that each index was given out; no two shares have an index in common */
    bool in_order[MOST];       /* a share that begins here: whether it is as it should be */
} seen;

static void look(void *ctx, tk_share share) {
    seen *s = ctx;
    bool whole = share.begin % s->grain == 0 && (share.end % s->grain == 0 || share.end == s->n);
    s->in_order[share.begin] = share.begin < share.end && whole && share.thread >= 0 && share.thread < s->threads;
    for (int64_t i = share.begin; i < share.end; i++) {
        s->times[i]++;
        if (i > share.begin)
            s->in_order[i] = true;
    }
}

/* Whether a loop of `kind` over n gave out what it should; no assertions: teams call it. */
enum { FOR, ITEMS, SLOTS, KINDS };
static bool is_right(int kind, int threads, int slots, int64_t n, int64_t grain) {
    tk_queue *q = tk_queue_create(threads, slots);
    seen s = {.n = n, .grain = kind == FOR ? grain : 1, .threads = kind == SLOTS && slots < threads ? slots : threads};
    if (kind == FOR)
        tk_parallel_for(q, n, grain, look, &s);
    else if (kind == ITEMS)
        tk_parallel_items(q, n, look, &s);
    else
        tk_parallel_slots(q, n, look, &s);
    tk_queue_destroy(q);
    for (int64_t i = 0; i < MOST; i++)
        if (s.times[i] != (i < n) || s.in_order[i] != (i < n))
            return false;
    return true;
}

static bool all_are_right(void) {
    static const int64_t sizes[] = {0, 1, 2, 7, 64, 999, MOST}, grains[] = {1, 3, 64, 2000};
    bool right = true;
    for (int kind = 0; kind < KINDS; kind++)
        for (int threads = 1; threads <= 5; threads += 2)
            for (int slots = 1; slots <= 6; slots += 2)
                for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++)
                    for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++)
                        right = right && is_right(kind, threads, slots, sizes[n], grains[g]);
    return right;
}

TEST(loops) { assert_true(all_are_right()); }

TEST(queues) {
    tk_queue *q = tk_queue_create(3, 16), *least = tk_queue_create(0, 0);
    assert_int_equal(tk_queue_threads(q), 3);
    assert_int_equal(tk_queue_slots(q), 16);
    assert_int_equal(tk_queue_threads(least), 1);
    assert_int_equal(tk_queue_slots(least), 1);
    assert_int_equal(tk_queue_threads(tk_queue_serial()), 1);
    assert_int_equal(tk_queue_slots(tk_queue_serial()), 1);
    tk_queue_destroy(q), tk_queue_destroy(least), tk_queue_destroy(NULL);
}

#ifdef _OPENMP
TEST(in_a_team) {
    int levels = omp_get_max_active_levels();
    for (int deep = 1; deep <= 2; deep++) {
        int right = 0;
        omp_set_max_active_levels(deep);
#pragma omp parallel num_threads(4) reduction(+ : right)
        right += all_are_right();
        assert_int_equal(right, 4);
    }
    omp_set_max_active_levels(levels);
}

TEST(settings) {
    int before = omp_get_max_threads();
    omp_set_num_threads(7);
    assert_true(all_are_right());
    assert_int_equal(omp_get_max_threads(), 7);
    assert_int_equal(tk_library_threads(1), 7);
    assert_int_equal(omp_get_max_threads(), 1);
    assert_int_equal(tk_library_threads(before), 1);
    assert_int_equal(omp_get_max_threads(), before);
}
#endif
