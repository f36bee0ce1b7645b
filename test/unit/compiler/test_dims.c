/* test_dims.c: symbolic arithmetic against identities of integers, and against plain integers by binding. */
#include "test/unit/cases.h"
#include "compiler/ir/dims.h"
#include <string.h>
#include <time.h>

typedef struct fixture {
    tc_arena *arena;
    tc_dim_pool *pool;
    tc_dim n, m, one, unknown;
} fixture;

static int setup(void **state) {
    static fixture f;
    f.arena = tc_arena_create();
    f.pool = tc_dim_pool_create(f.arena);
    f.n = tc_dim_symbol(f.pool, "n");
    f.m = tc_dim_symbol(f.pool, "m");
    f.one = tc_dim_const(1);
    f.unknown = tc_dim_unknown();
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    tc_arena_destroy(((fixture *)*state)->arena);
    return 0;
}

#define C(v) tc_dim_const(v)
#define ADD(a, b) tc_dim_add(f->pool, a, b)
#define SUB(a, b) tc_dim_sub(f->pool, a, b)
#define MUL(a, b) tc_dim_mul(f->pool, a, b)
#define DIV(a, b) tc_dim_div(f->pool, a, b)
#define MAX(a, b) tc_dim_max(f->pool, a, b)
#define MIN(a, b) tc_dim_min(f->pool, a, b)
#define EQUAL(a, b)                                                                                                    \
    assert_string_equal(tc_dim_text(f->arena, a), tc_dim_text(f->arena, b)), assert_true(tc_dim_equal(a, b))
#define TEXT(a, text) assert_string_equal(tc_dim_text(f->arena, a), text)

TEST_WITH(equality, setup, teardown) {
    fixture *f = *test_state;
    assert_true(tc_dim_equal(C(3), C(3)));
    assert_false(tc_dim_equal(C(3), C(4)));
    assert_false(tc_dim_equal(f->unknown, f->unknown));
    assert_false(tc_dim_equal(f->n, f->m));
    assert_true(tc_dim_equal(f->n, tc_dim_symbol(f->pool, "n")));
    tc_dim fresh = tc_dim_fresh(f->pool, "n");
    TEXT(fresh, "n_1");
    assert_false(tc_dim_equal(fresh, tc_dim_fresh(f->pool, "n")));
    tc_dim_symbol(f->pool, "n_3");
    TEXT(tc_dim_fresh(f->pool, "n"), "n_4");
}

/* One name for sizes that only the data decides, given anew in each of very many nodes. */
TEST_WITH(fresh_symbols_take_linear_time, setup, teardown) {
    fixture *f = *test_state;
    clock_t start = clock();
    for (int i = 0; i < 200000; i++)
        tc_dim_fresh(f->pool, "size");
    TEXT(tc_dim_fresh(f->pool, "size"), "size_200000");
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20); /* 0.1; by probing it is minutes */
}

TEST_WITH(polynomials, setup, teardown) {
    fixture *f = *test_state;
    EQUAL(ADD(f->n, f->m), ADD(f->m, f->n));
    EQUAL(MUL(ADD(f->n, f->m), SUB(f->n, f->m)), SUB(MUL(f->n, f->n), MUL(f->m, f->m)));
    EQUAL(SUB(f->n, f->n), C(0));
    EQUAL(SUB(ADD(f->n, C(5)), f->n), C(5));
    EQUAL(MUL(f->n, C(0)), C(0));
    EQUAL(MUL(f->unknown, C(0)), C(0));
    assert_true(tc_dim_is_unknown(ADD(f->n, f->unknown)));
    TEXT(ADD(MUL(C(2), MUL(f->n, f->m)), C(1)), "2*n*m + 1");
    TEXT(SUB(C(1), f->n), "-n + 1");
    TEXT(f->unknown, "?");
}

TEST_WITH(division, setup, teardown) {
    fixture *f = *test_state;
    EQUAL(DIV(C(-7), C(2)), C(-4));
    EQUAL(DIV(MUL(C(64), MUL(f->n, f->m)), MUL(f->n, C(64))), f->m);
    EQUAL(DIV(SUB(MUL(f->n, f->n), C(1)), ADD(f->n, C(1))), SUB(f->n, C(1)));
    EQUAL(DIV(ADD(MUL(f->n, C(4)), C(3)), C(4)), f->n);
    EQUAL(DIV(ADD(f->n, C(9)), C(4)), ADD(DIV(ADD(f->n, C(1)), C(4)), C(2)));
    EQUAL(DIV(DIV(f->n, C(2)), C(3)), DIV(f->n, C(6)));
    EQUAL(DIV(ADD(DIV(f->n, C(2)), C(1)), C(2)), DIV(ADD(f->n, C(2)), C(4)));
    TEXT(DIV(ADD(f->n, C(1)), C(2)), "floor((n + 1)/2)");
    assert_true(tc_dim_is_unknown(DIV(f->n, C(0))));
    assert_true(tc_dim_is_unknown(DIV(C(INT64_MIN), C(-1))));
}

TEST_WITH(choice, setup, teardown) {
    fixture *f = *test_state;
    EQUAL(MAX(f->n, f->m), MAX(f->m, f->n));
    EQUAL(MAX(f->n, MIN(f->n, C(512))), f->n);
    EQUAL(MIN(f->n, MIN(f->n, C(512))), MIN(C(512), f->n));
    EQUAL(MAX(MAX(f->n, f->m), f->n), MAX(f->n, f->m));
    EQUAL(MAX(C(-1), f->n), f->n);
    EQUAL(MIN(ADD(f->n, C(2)), f->n), f->n);
    TEXT(MIN(f->n, C(512)), "min(n, 512)");
}

TEST_WITH(comparison, setup, teardown) {
    fixture *f = *test_state;
    assert_int_equal(tc_dim_less(C(1), C(2)), 1);
    assert_int_equal(tc_dim_less(C(2), C(2)), 0);
    assert_int_equal(tc_dim_less(C(0), f->n), 1);
    assert_int_equal(tc_dim_less(f->n, C(1)), 0);
    assert_int_equal(tc_dim_less(f->n, C(2)), -1);
    assert_int_equal(tc_dim_less(f->n, ADD(f->n, f->m)), 1);
    assert_int_equal(tc_dim_less(f->n, MIN(f->n, f->m)), 0);
    assert_int_equal(tc_dim_less(f->n, f->unknown), -1);
    assert_int_equal(tc_dim_less(SUB(MIN(f->n, C(512)), f->n), f->one), 1);
}

TEST_WITH(limits, setup, teardown) {
    fixture *f = *test_state;
    assert_true(tc_dim_is_unknown(MUL(C(INT64_MAX), C(2))));
    assert_true(tc_dim_is_unknown(ADD(C(INT64_MAX), C(1))));
    assert_true(tc_dim_is_unknown(MUL(MUL(f->n, C(INT64_MAX)), C(2))));
    tc_dim grown = f->n;
    for (int i = 0; i < 100000; i++) /* time stays linear */
        grown = i % 2 ? MUL(grown, ADD(f->n, C(i))) : MAX(grown, DIV(grown, f->m));
    assert_true(tc_dim_is_unknown(grown));
}

static bool lookup(void *user, const char *name, int64_t *value) {
    const int64_t *values = user;
    *value = strcmp(name, "n") == 0 ? values[0] : values[1];
    return strcmp(name, "n") == 0 || values[1] > 0;
}

static int64_t floor_int(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* Random expressions, built beside their values for n = 5, m = 7: binding gives the value. */
TEST_WITH(binding, setup, teardown) {
    fixture *f = *test_state;
    int64_t both[] = {5, 7}, n_only[] = {5, 0};
    uint64_t seed = 12345;
    for (int round = 0; round < 2000; round++) {
        tc_dim d[4] = {f->n, f->m, C(3), C(2)};
        int64_t v[4] = {5, 7, 3, 2};
        for (int step = 0; step < 6; step++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned i = (unsigned)(seed >> 33) % 4, j = (unsigned)(seed >> 40) % 4, op = (unsigned)(seed >> 50) % 6;
            if (op == 3 && v[j] <= 0)
                continue;
            tc_dim r = op == 0   ? ADD(d[i], d[j])
                       : op == 1 ? SUB(d[i], d[j])
                       : op == 2 ? MUL(d[i], d[j])
                       : op == 3 ? DIV(d[i], d[j])
                       : op == 4 ? MAX(d[i], d[j])
                                 : MIN(d[i], d[j]);
            int64_t w = op == 0   ? v[i] + v[j]
                        : op == 1 ? v[i] - v[j]
                        : op == 2 ? v[i] * v[j]
                        : op == 3 ? floor_int(v[i], v[j])
                        : op == 4 ? (v[i] > v[j] ? v[i] : v[j])
                                  : (v[i] < v[j] ? v[i] : v[j]);
            if (tc_dim_is_unknown(r) || w > 1000000 || w < -1000000)
                break;
            d[i] = r;
            v[i] = w;
            EQUAL(tc_dim_substitute(f->pool, r, lookup, both), C(w));
            EQUAL(tc_dim_substitute(f->pool, tc_dim_substitute(f->pool, r, lookup, n_only), lookup, both), C(w));
            int less = tc_dim_less(d[0], d[1]);
            assert_true(less == -1 || less == (v[0] < v[1]));
        }
    }
}
