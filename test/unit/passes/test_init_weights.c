/* test_init_weights.c: new weights are uniform between -bound and bound and not correlated; seed and name decide them,
 * and the shape does not. */
#include "test/unit/cases.h"
#include "passes/weights/weights.h"
#include <math.h>
#include <string.h>

enum { ROWS = 40, COLUMNS = 1000, BINS = 20 };
static const double bound = 0.125;

static const float *make(tc_model *model, int64_t seed, const char *name) {
    const tc_tensor *tensor = tc_uniform_weight(model, TC_FLOAT, 2, (int64_t[]){ROWS, COLUMNS}, bound, seed, name);
    assert_true(tensor->count == ROWS * COLUMNS && strcmp(tensor->name, name) == 0);
    return tensor->data;
}

/* Expected of n = 40000 independent numbers; limits are 5 standard deviations, and for 20 bins the 1 - 1e-6 quantile
 * of chi-square with 19 degrees of freedom. */
TEST(uniform_and_independent) {
    tc_model *model = tc_model_create();
    static const struct {
        int64_t seed;
        const char *name;
    } rows[] = {{0, "fc.weight"}, {1, "fc.weight"}, {-1, "fc.weight"}, {0, "fc.bias"}, {INT64_MAX, ""}};
    const float *made[TC_COUNT(rows)];
    const double n = ROWS * COLUMNS, variance = bound * bound / 3;
    for (size_t r = 0; r < TC_COUNT(rows); r++) {
        double sum = 0, squares = 0, neighbors = 0, chi = 0, counts[BINS] = {0};
        const float *x = made[r] = make(model, rows[r].seed, rows[r].name);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            assert_true(x[i] >= -bound && x[i] < bound);
            sum += x[i], squares += (double)x[i] * x[i], neighbors += i ? (double)x[i] * x[i - 1] : 0;
            counts[(int)((x[i] / bound + 1) / 2 * BINS)]++;
        }
        for (int b = 0; b < BINS; b++)
            chi += (counts[b] - n / BINS) * (counts[b] - n / BINS) / (n / BINS);
        assert_true(fabs(sum / n) < 5 * sqrt(variance / n));
        assert_true(fabs(squares / n - variance) < 5 * bound * bound * sqrt(4.0 / 45 / n));
        assert_true(fabs(neighbors / n) < 5 * variance / sqrt(n));
        assert_true(chi < 63.2);
        for (size_t other = 0; other < r; other++) {
            double product = 0;
            for (int i = 0; i < ROWS * COLUMNS; i++)
                product += (double)x[i] * made[other][i];
            assert_true(fabs(product / n) < 5 * variance / sqrt(n));
        }
    }
    tc_model_destroy(model);
}

TEST(the_same_again) {
    tc_model *model = tc_model_create();
    const float *first = make(model, 7, "w");
    const tc_tensor *flat = tc_uniform_weight(model, TC_FLOAT, 1, (int64_t[]){COLUMNS}, bound, 7, "w"),
                    *half = tc_uniform_weight(model, TC_FLOAT16, 1, (int64_t[]){COLUMNS}, bound, 7, "w");
    assert_true(memcmp(make(model, 7, "w"), first, ROWS * COLUMNS * sizeof *first) == 0);
    assert_true(memcmp(flat->data, first, COLUMNS * sizeof *first) == 0);
    for (uint64_t i = 0; i < COLUMNS; i++)
        assert_true(tc_tensor_get(half, i) == tc_round_float(TC_FLOAT16, (double)first[i]));
    tc_model_destroy(model);
}
