/* check_embedding.c: elements picked by index and put back on the emulated device: indices of both types, negative ones
 * and ones that are out of range; many updates of one element, in their order. */
#include "cuda_case.h"
#include <stdlib.h>

static const bounds exact = {0};
static const tk_dtype by_size[] = {TK_U8, TK_BF16, TK_F32, TK_I64, 0}, index_types[] = {TK_I64, TK_I32, 0};
#define INDICES(pair) ((tk_indices){AT(pair), (pair).dtype})

/* n indices below `axis`, from the end as well. */
static pair indices_below(tk_dtype dtype, int64_t n, int64_t axis) {
    return pair_random(dtype, n, (double)-axis, (double)axis);
}

/* n indices of which the last is out of range, on either side. */
static pair wrong_indices(tk_dtype dtype, int64_t n, int64_t axis) {
    double *numbers = calloc((size_t)n, sizeof *numbers);
    numbers[n - 1] = (double)(dtype == TK_I32 ? axis : -axis - 1);
    pair p = pair_numbers(dtype, n, numbers);
    free(numbers);
    return p;
}

/* --- Gather ------------------------------------------------------------------------------------- */

static void gathers(void) {
    static const int64_t inners[] = {0, 1, 3, 8, 16, 33};
    for (const tk_dtype *t = by_size; *t; t++)
        for (const tk_dtype *it = index_types; *it; it++)
            for (size_t i = 0; i < sizeof inners / sizeof *inners; i++) {
                const int64_t outer = 2, axis = 7, n = 11, inner = inners[i];
                pair x = pair_random(*t, outer * axis * inner, -100, 100), y = pair_result(*t, outer * n * inner),
                     at = indices_below(*it, n, axis), bad = wrong_indices(*it, n, axis);
                ON_BOTH(gather, AT(y), AT(x), INDICES(at), outer, axis, inner, n, tk_size(*t));
                pair_compare(y, exact, "rows of %lld", (long long)inner);
                if (inner == 0)
                    continue;
                ON_BOTH(gather, AT(y), AT(x), INDICES(bad), outer, axis, inner, n, tk_size(*t));
                expect_fault(TK_BAD_INDEX, "an index out of range");
            }
}

typedef struct grad_case {
    int64_t outer, axis, inner, n;
    int same; /* indices are below this */
} grad_case;

static const grad_case grads[] = {
    {1, 5, 1, 1, 5},   {2, 7, 16, 40, 7},   {3, 11, 5, 40, 3},   {1, 300, 8, 257, 300}, {1, 2, 24, 700, 1},
    {2, 3, 9, 515, 2}, {1, 1000, 3, 64, 9}, {1, 700, 1, 9, 700}, {2, 4, 8, 128, 1},     {1, 4, 8, 129, 1},
    {1, 4, 0, 5, 4},   {1, 6, 3, 0, 6},     {1, 3, 8, 2500, 3},
};

/* Of sums of n terms up to 1. */
static bounds of_sums(tk_dtype dtype, int64_t n) {
    return dtype == TK_F64   ? (bounds){.absolute = 1e-15 * (double)(n + 1)}
           : dtype == TK_F32 ? (bounds){.absolute = 6e-8 * (double)(n + 1)}
                             : (bounds){.ulps = 1, .absolute = 6e-8 * (double)(n + 1)};
}

static void gather_grads(void) {
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t i = 0; i < sizeof grads / sizeof *grads; i++)
            for (int64_t first = 0; first < 2; first++) { /* packed, and not */
                const grad_case *c = &grads[i];
                if (first > 0 && c->inner % 8 != 0)
                    continue;
                const int64_t n_out = c->outer * c->axis * c->inner, n_grad = c->outer * c->n * c->inner;
                pair g = pair_from(pair_random(*t, n_grad + first, -1, 1), first),
                     y = pair_from(pair_result(*t, n_out + first), first),
                     at = pair_random(index_types[i % 2], c->n, 0, c->same);
                ON_BOTH(gather_grad, AT(y), AT(g), INDICES(at), c->outer, c->axis, c->inner, c->n, *t,
                        workspace(OF_TABLE(gather_grad_workspace)(c->outer, c->axis, c->inner, c->n, *t, 1)));
                pair_compare(y, of_sums(*t, c->n), "gradient %zu from %lld", i, (long long)first);
            }
    pair g = pair_random(TK_F32, 12, -1, 1), y = pair_result(TK_F32, 12), bad = wrong_indices(TK_I64, 4, 4);
    ON_BOTH(gather_grad, AT(y), AT(g), INDICES(bad), 1, 4, 3, 4, TK_F32,
            workspace(OF_TABLE(gather_grad_workspace)(1, 4, 3, 4, TK_F32, 1)));
    expect_fault(TK_BAD_INDEX, "a gradient's index out of range");
}

/* The result depends on the indices and the rows only: up to 128 rows that meet are added one after the other. */
static void grad_order(void) {
    enum { N = 128, INNER = 5 };
    pair g = pair_random(TK_F32, N * INNER, -1, 1), y = pair_result(TK_F32, 2 * INNER),
         at = pair_random(TK_I64, N, 0, 1);
    const float *rows = g.at[HOST];
    ON_BOTH(gather_grad, AT(y), AT(g), INDICES(at), 1, 2, INNER, N, TK_F32,
            workspace(OF_TABLE(gather_grad_workspace)(1, 2, INNER, N, TK_F32, 1)));
    for (int j = 0; j < INNER; j++) {
        float sum = 0;
        for (int i = 0; i < N; i++)
            sum += rows[i * INNER + j];
        if (device_number(y, j) != (double)sum)
            wrong("column %d is %.9g, in the order of the indices %.9g", j, device_number(y, j), (double)sum);
    }
}

/* --- element by element, by tuples ---------------------------------------------------------------- */

static void elements(void) {
    const int64_t dims[] = {4, 5, 6}, out_dims[] = {3, 7, 6};
    for (const tk_dtype *t = by_size; *t; t++)
        for (const tk_dtype *it = index_types; *it; it++) {
            pair x = pair_random(*t, 120, -100, 100), y = pair_result(*t, 126), at = indices_below(*it, 126, 5),
                 bad = wrong_indices(*it, 126, 5);
            ON_BOTH(gather_elements, AT(y), AT(x), INDICES(at), 3, out_dims, dims, 1, tk_size(*t));
            pair_compare(y, exact, "GatherElements");
            ON_BOTH(gather_elements, AT(y), AT(x), INDICES(bad), 3, out_dims, dims, 1, tk_size(*t));
            expect_fault(TK_BAD_INDEX, "GatherElements out of range");
        }
}

static void tuples(void) {
    const int64_t dims[] = {3, 4};
    for (const tk_dtype *t = by_size; *t; t++)
        for (const tk_dtype *it = index_types; *it; it++)
            for (int64_t inner = 1; inner < 18; inner += 5)
                for (int depth = 0; depth < 3; depth++) {
                    const tk_nd nd = {2, 9, inner, depth, dims};
                    const int64_t rows = depth == 0 ? 1 : depth == 1 ? 3 : 12;
                    pair x = pair_random(*t, 2 * rows * inner, -100, 100), y = pair_result(*t, 2 * 9 * inner),
                         at = indices_below(*it, 2 * 9 * depth + 1, 3);
                    ON_BOTH(gather_nd, AT(y), AT(x), INDICES(at), &nd, tk_size(*t));
                    pair_compare(y, exact, "GatherND of depth %d, inner %lld", depth, (long long)inner);
                    pair bad = wrong_indices(*it, 2 * 9 * depth + (depth == 0), 4);
                    ON_BOTH(gather_nd, AT(y), AT(x), INDICES(bad), &nd, tk_size(*t));
                    expect_fault(depth > 0 ? TK_BAD_INDEX : TK_OK, "GatherND out of range");
                }
}

/* --- scatters ------------------------------------------------------------------------------------- */

static const tk_scatter_kind kinds[] = {TK_PUT, TK_ADD, TK_MUL, TK_MIN, TK_MAX};

static bounds of_kind(tk_scatter_kind kind, tk_dtype dtype) {
    if ((kind != TK_ADD && kind != TK_MUL) || !tk_is_float(dtype))
        return exact;
    return dtype == TK_F64 ? (bounds){.relative = 1e-13, .absolute = 1e-13}
                           : (bounds){.relative = 1e-5, .absolute = 1e-5};
}

static void scatters(void) {
    static const int64_t sizes[] = {1, 30, 300, 9001}; /* updates: the last are more than CUB sorts in one block */
    const int64_t dims[] = {3, 7};
    for (const tk_dtype *t = all_types; *t; t++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                if (!tk_can_reduce(kinds[k], *t) || (i == 3 && *t != TK_F32) || (i == 2 && tk_size(*t) != 1))
                    continue;
                const int64_t inner = i % 2 ? 1 : 5, n = sizes[i], half = tk_is_float(*t) && kinds[k] == TK_MUL;
                const tk_nd nd = {1, n, inner, 2, dims};
                pair x = pair_random(*t, 21 * inner, half ? 0.5 : -9, half ? 1.5 : 9),
                     u = pair_random(*t, n * inner, half ? 0.9 : -9, half ? 1.1 : 9),
                     at = indices_below(index_types[i % 2], n * 2, 3), bad = wrong_indices(TK_I32, n * 2, 7);
                ON_BOTH(scatter_nd, AT(x), INDICES(at), AT(u), &nd, kinds[k], *t,
                        workspace(OF_TABLE(scatter_workspace)(n)));
                pair_compare(x, of_kind(kinds[k], *t), "ScatterND, kind %d, %lld updates", (int)kinds[k], (long long)n);
                ON_BOTH(scatter_nd, AT(x), INDICES(bad), AT(u), &nd, kinds[k], *t,
                        workspace(OF_TABLE(scatter_workspace)(n)));
                expect_fault(TK_BAD_INDEX, "ScatterND out of range");
            }
}

static void scatter_elements(void) {
    const int64_t dims[] = {3, 40, 5}, upd_dims[] = {3, 20, 4};
    for (const tk_dtype *t = all_types; *t; t++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (int axis = 0; axis < 2; axis++) {
                if (!tk_can_reduce(kinds[k], *t) || (axis != (int)k % 2 && *t != TK_F32))
                    continue;
                pair x = pair_random(*t, 600, -9, 9), u = pair_random(*t, 240, -9, 9),
                     at = indices_below(index_types[axis], 240, dims[axis]),
                     bad = wrong_indices(TK_I64, 240, dims[axis]);
                ON_BOTH(scatter_elements, AT(x), INDICES(at), AT(u), 3, upd_dims, dims, axis, kinds[k], *t,
                        workspace(OF_TABLE(scatter_workspace)(240)));
                pair_compare(x, of_kind(kinds[k], *t), "ScatterElements, kind %d, axis %d", (int)kinds[k], axis);
                ON_BOTH(scatter_elements, AT(x), INDICES(bad), AT(u), 3, upd_dims, dims, axis, kinds[k], *t,
                        workspace(OF_TABLE(scatter_workspace)(240)));
                expect_fault(TK_BAD_INDEX, "ScatterElements out of range");
            }
}

static void caches(void) {
    static const int64_t starts[] = {0, 3}, bad[] = {0, 5}, negative[] = {-1, 0};
    for (const tk_dtype *t = by_size; *t; t++)
        for (int64_t inner = 1; inner < 20; inner += 9)
            for (int64_t length = 4; length < 15; length += 9) { /* also more than there is room for */
                const tk_cache_dims s = {2, 3, 8, length, inner, length > 8};
                pair x = pair_random(*t, 2 * 3 * 8 * inner, -100, 100),
                     u = pair_random(*t, 2 * 3 * length * inner, -100, 100), at = pair_of(TK_I64, 2, starts),
                     out = pair_of(TK_I64, 2, s.circular ? negative : bad);
                ON_BOTH(tensor_scatter, AT(x), AT(u), AT(at), &s, tk_size(*t));
                pair_compare(x, exact, "%lld entries of %lld", (long long)length, (long long)inner);
                ON_BOTH(tensor_scatter, AT(x), AT(u), NULL, &s, tk_size(*t));
                pair_compare(x, exact, "%lld entries at the start", (long long)length);
                ON_BOTH(tensor_scatter, AT(x), AT(u), AT(out), &s, tk_size(*t));
                expect_fault(TK_BAD_INDEX, "entries outside the cache");
            }
}

const cuda_check checks[] = {
    {"gather", gathers}, {"grad", gather_grads}, {"order", grad_order},          {"elements", elements},
    {"tuples", tuples},  {"scatter", scatters},  {"put_back", scatter_elements}, {"caches", caches},
    {NULL, NULL}};
