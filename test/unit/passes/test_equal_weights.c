/* test_equal_weights.c: equal and transposed weights are found, near ones are not, and the bytes read stay linear in
 * the bytes there are, also where weights are made to look alike. */
#include "test/unit/cases.h"
#include "passes/weights/weights.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct set {
    tc_model *model;
    tc_weight weights[MOST];
    tc_equal equal[MOST];
    size_t n;
    uint64_t bytes; /* of all weights */
} set;

static set set_create(void) { return (set){.model = tc_model_create()}; }

static void add(set *s, tc_dtype dtype, int rank, const int64_t *dims, const void *data) {
    const tc_tensor *tensor = tc_tensor_create(s->model, dtype, rank, dims, data);
    s->bytes += tensor->bytes;
    s->weights[s->n++] = (tc_weight){tensor, tensor->data};
}

static void add_floats(set *s, int rank, const int64_t *dims, const float *data) { add(s, TC_FLOAT, rank, dims, data); }

static uint64_t find(set *s) { return tc_find_equal(s->weights, s->n, s->equal); }

TEST(copies_and_transposes) {
    set s = set_create();
    const float a[6] = {1, 2, 3, 4, 5, 6}, at[6] = {1, 4, 2, 5, 3, 6}, near[6] = {1, 4, 2, 5, 3, 7},
                moved[6] = {1, 3, 2, 5, 4, 6};
    const int64_t wide[2] = {2, 3}, high[2] = {3, 2}, flat[1] = {6};
    add_floats(&s, 2, wide, a);
    add_floats(&s, 2, high, at);
    add_floats(&s, 2, high, near);  /* another last element */
    add_floats(&s, 2, high, moved); /* the same elements elsewhere */
    add_floats(&s, 2, wide, a);
    add_floats(&s, 2, high, a); /* the same bytes, other dims: no transpose of the first */
    add_floats(&s, 1, flat, a);
    find(&s);
    const size_t first[7] = {0, 0, 2, 3, 0, 5, 6};
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(s.equal[i].first, first[i]);
    assert_true(s.equal[1].permuted && s.equal[1].perm[0] == 1 && s.equal[1].perm[1] == 0);
    assert_false(s.equal[4].permuted);
    tc_model_destroy(s.model);
}

TEST(uniform_and_bits) {
    set s = set_create();
    const int64_t two[1] = {2}, three[1] = {3};
    const float zeros[3] = {0, 0, 0}, minus[2] = {0, -0.0F}, plus[2] = {0, 0}, inner[3] = {1, 2, 1};
    const uint16_t half[2] = {0x7e00, 0x3c00}; /* a NaN equals itself */
    add_floats(&s, 1, three, zeros);
    add_floats(&s, 1, three, zeros);
    add_floats(&s, 1, two, minus);
    add_floats(&s, 1, two, plus);
    add_floats(&s, 1, three, inner);
    add(&s, TC_FLOAT16, 1, two, half);
    add(&s, TC_FLOAT16, 1, two, half);
    add(&s, TC_BFLOAT16, 1, two, half); /* the same bits, another type */
    find(&s);
    assert_true(s.equal[0].uniform && s.equal[1].uniform && s.equal[1].first == 1);
    assert_false(s.equal[2].uniform);
    assert_true(s.equal[3].uniform);
    assert_false(s.equal[4].uniform);
    assert_int_equal(s.equal[6].first, 5);
    assert_int_equal(s.equal[7].first, 7);
    tc_model_destroy(s.model);
}

/* Every order of four axes is found, with the axes as Transpose takes them. */
TEST(four_axes) {
    enum { N = 2 * 3 * 4 * 5 };
    set s = set_create();
    const int64_t dims[4] = {2, 3, 4, 5}, perm[4] = {2, 0, 3, 1};
    int64_t out_dims[4];
    double a[N], b[N];
    for (int i = 0; i < N; i++)
        a[i] = i * 0.5;
    for (int i = 0; i < 4; i++)
        out_dims[i] = dims[perm[i]];
    for (int i = 0; i < N; i++) {
        int64_t rest = i, at[4];
        for (int k = 4; k-- > 0; rest /= out_dims[k])
            at[perm[k]] = rest % out_dims[k];
        b[i] = a[((at[0] * 3 + at[1]) * 4 + at[2]) * 5 + at[3]];
    }
    add(&s, TC_DOUBLE, 4, dims, a);
    add(&s, TC_DOUBLE, 4, out_dims, b);
    find(&s);
    assert_int_equal(s.equal[1].first, 0);
    assert_true(s.equal[1].permuted);
    assert_memory_equal(s.equal[1].perm, perm, sizeof perm);
    tc_model_destroy(s.model);
}

/* Blocks of the comparison that are not full. */
TEST(large_transpose) {
    enum { M = 150, N = 201 };
    set s = set_create();
    const int64_t dims[2] = {M, N}, swapped[2] = {N, M};
    float *a = malloc(sizeof *a * M * N), *b = malloc(sizeof *b * M * N);
    assert_true(a && b);
    for (int i = 0; i < M * N; i++)
        a[i] = (float)((i * 7919) % 10007);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            b[j * M + i] = a[i * N + j];
    add_floats(&s, 2, dims, a);
    add_floats(&s, 2, swapped, b);
    b[3 * M + 140] += 1, b[4 * M + 140] -= 1;
    add_floats(&s, 2, swapped, b);
    find(&s);
    assert_int_equal(s.equal[1].first, 0);
    assert_int_equal(s.equal[2].first, 2);
    free(a);
    free(b);
    tc_model_destroy(s.model);
}

enum { SIDE = 40 };

/* `n` square weights of one size, by kind: real ones; ones that agree in their corners; ones that are rows of each
 * other in another order. */
static double read_for_each_byte(int kind, size_t n) {
    set s = set_create();
    const int64_t dims[2] = {SIDE, SIDE};
    float *data = malloc(sizeof *data * SIDE * SIDE);
    assert_non_null(data);
    for (size_t w = 0; w < n; w++) {
        for (size_t i = 0; i < SIDE * SIDE; i++) {
            size_t row = i / SIDE, column = i % SIDE;
            size_t from = row == 0 || row == SIDE - 1 ? row : 1 + (row - 1 + w) % (SIDE - 2);
            data[i] = kind == 2 ? (float)(from * SIDE + column) : (float)((i + 1) * (w + 3) % 8191);
        }
        if (kind == 1)
            data[0] = data[SIDE * SIDE - 1] = -1;
        add_floats(&s, 2, dims, data);
    }
    uint64_t read = find(&s);
    for (size_t w = 0; w < n && w < SIDE - 2; w++)
        assert_int_equal(s.equal[w].first, w);
    double ratio = (double)read / (double)s.bytes;
    free(data);
    tc_model_destroy(s.model);
    return ratio;
}

TEST(linear) {
    assert_true(read_for_each_byte(0, MOST) < 0.01);
    assert_true(read_for_each_byte(1, MOST) < 1.01);
    double few = read_for_each_byte(2, MOST / 4), many = read_for_each_byte(2, MOST / 2);
    assert_true(many < 20 && many < 1.2 * few);
}
