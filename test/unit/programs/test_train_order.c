/* test_train_order.c: orders of samples are permutations, come out equally often, and hang on nothing but seed, epoch
 * and stream. */
#include "test/unit/cases.h"
#include "programs/tempo-train/data/train_order.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1500 };

static void check_permutation(uint64_t n, uint64_t seed) {
    bool seen[LARGEST] = {false};
    train_order order = train_order_of(n, seed, 2, 0);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = train_order_at(&order, i);
        assert_true(at < n && !seen[at]);
        seen[at] = true;
    }
}

TEST(every_size_is_permuted) {
    for (uint64_t n = 1; n <= LARGEST; n++)
        check_permutation(n, n * 77);
}

/* Around powers and squares, up to the largest: places and their images stay below n, no two are equal. */
TEST(large_sizes_are_permuted) {
    static const uint64_t sizes[] = {(1u << 16) + 1, UINT64_C(1) << 32, (UINT64_C(1) << 40) - 1,
                                     UINT64_C(99999989) * 99999989, (UINT64_C(1) << 62) - 1};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        train_order order = train_order_of(sizes[k], 11, 0, 0);
        uint64_t seen[300];
        for (uint64_t i = 0; i < 300; i++) {
            seen[i] = train_order_at(&order, i < 150 ? i : sizes[k] - 300 + i);
            assert_true(seen[i] < sizes[k]);
            for (uint64_t j = 0; j < i; j++)
                assert_int_not_equal(seen[i], seen[j]);
        }
    }
}

/* Pearson's statistic of `cells` equally likely results. */
static double chi_square(const int *counts, int cells, double expected) {
    double sum = 0;
    for (int i = 0; i < cells; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

/* All orders of few samples over seeds, and over epochs of one seed. Limits: of each chi-square distribution the point
 * that one trial of a million exceeds. */
TEST(orders_are_equally_likely) {
    static const struct {
        uint64_t n;
        int orders;
        double limit;
    } cases[] = {{2, 2, 23.9}, {3, 6, 35.9}, {4, 24, 70.5}, {5, 120, 207.2}};
    enum { EACH = 1000, CODES = 3125 };
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        uint64_t n = cases[k / 2].n;
        int counts[CODES] = {0}, found[CODES], n_found = 0;
        for (uint64_t trial = 0; trial < (uint64_t)(EACH * cases[k / 2].orders); trial++) {
            train_order order = k % 2 ? train_order_of(n, trial, 3, 0) : train_order_of(n, 3, trial, 0);
            uint64_t code = 0;
            for (uint64_t i = 0; i < n; i++)
                code = code * n + train_order_at(&order, i);
            counts[code]++;
        }
        for (int code = 0; code < CODES; code++)
            if (counts[code] > 0)
                found[n_found++] = counts[code];
        assert_int_equal(n_found, cases[k / 2].orders);
        assert_true(chi_square(found, n_found, EACH) < cases[k / 2].limit);
    }
}

/* Neighbours of 1000 samples: how far apart they come to lie, in tenths of a circle, is equally likely, too. */
TEST(neighbours_are_independent) {
    enum { N = 1000, EPOCHS = 100, BINS = 10 };
    int counts[BINS] = {0};
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        train_order order = train_order_of(N, 1, epoch, 0);
        uint64_t before = train_order_at(&order, N - 1);
        for (uint64_t i = 0; i < N; i++) {
            uint64_t at = train_order_at(&order, i);
            counts[(at + N - before - 1) % N * BINS / N]++;
            before = at;
        }
    }
    assert_true(chi_square(counts, BINS, (double)N * EPOCHS / BINS) < 44.8);
}

TEST(what_decides) {
    enum { N = 64 };
    const train_order orders[] = {train_order_of(N, 1, 0, 0),
                                  train_order_of(N, 2, 0, 0),
                                  train_order_of(N, UINT64_C(1) << 32 | 1, 0, 0),
                                  train_order_of(N, 1, 1, 0),
                                  train_order_of(N, 1, UINT64_C(1) << 32, 0),
                                  train_order_of(N, 1, 0, 1)};
    for (size_t a = 0; a < sizeof orders / sizeof *orders; a++)
        for (size_t b = 0; b < a; b++) {
            int same = 0;
            for (uint64_t i = 0; i < N; i++)
                same += train_order_at(&orders[a], i) == train_order_at(&orders[b], i);
            assert_true(same < 10);
        }
    train_order again = train_order_of(N, 1, 0, 0);
    assert_memory_equal(&again, &orders[0], sizeof again);
}
