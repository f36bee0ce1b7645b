/* recipe_patterns.c: what exporters write for one idea, in several spellings, so that the rules of raise and lean have
 * something to match; and near misses, since every value inside a pattern may be picked by later nodes, or be an
 * output. */
#include "recipe_build.h"
#include <math.h>

static int start(gen *g, int least_rank, int most_rank, bool static_last) {
    int x = fz_pick(g, FZ_FLOAT, least_rank, most_rank);
    if (x == NONE || (static_last && fz_last(g, x, 1).symbol != 0))
        return NONE;
    return fz_calm(g, x);
}

static int times(gen *g, int x, double factor) {
    int c = fz_number(g, factor);
    return fz_either(g, "Mul", x, c, fz_at(g, x)->high * fabs(factor));
}

static int plus(gen *g, int x, double term) {
    int c = fz_number(g, term);
    return fz_either(g, "Add", x, c, fz_at(g, x)->high + fabs(term));
}

static int power(gen *g, int x, double exponent) { return fz_binary(g, "Pow", x, fz_number(g, exponent), 20); }
static int linear(gen *g, int x, int64_t width) {
    return fz_matmul(g, x, fz_weight(g, 2, (fz_dim[]){fz_last(g, x, 1), fz_size(width)}));
}

/* A factor now and then that is not the one of the formula. */
static double near(gen *g, double right) { return fz_chance(g, 4) ? right * 1.0625 : right; }

/* --- activations ------------------------------------------------------------------------------ */

FZ_PICKED(static, add_gelu_erf, x, start(g, 1, 4, false)) {
    (void)row;
    double bound = fz_at(g, x)->high;
    int scaled = fz_chance(g, 50) ? fz_binary(g, "Div", x, fz_number(g, near(g, sqrt(2))), bound)
                                  : times(g, x, near(g, sqrt(0.5)));
    int erf = fz_unary(g, "Erf", NULL, scaled, 1);
    if (fz_chance(g, 30)) {
        erf = plus(g, times(g, erf, 0.5), 0.5);
        return fz_either(g, "Mul", x, erf, bound);
    }
    int one = plus(g, erf, 1);
    if (fz_chance(g, 50))
        return times(g, fz_either(g, "Mul", x, one, 2 * bound), near(g, 0.5));
    x = times(g, x, 0.5);
    return fz_either(g, "Mul", x, one, bound);
}

static int cube(gen *g, int x) {
    double bound = fz_at(g, x)->high;
    if (fz_chance(g, 50))
        return power(g, x, 3);
    int square = fz_binary(g, "Mul", x, x, bound * bound);
    return fz_either(g, "Mul", square, x, bound * bound * bound);
}

FZ_PICKED(static, add_gelu_tanh, x, start(g, 1, 4, false)) {
    (void)row;
    double bound = fz_at(g, x)->high, k = near(g, sqrt(2 / acos(-1)));
    int third = times(g, cube(g, x), 0.044715), inner = fz_either(g, "Add", x, third, bound + 1), how = fz_below(g, 3);
    int u = times(g, inner, how == 0 ? 2 * k : k);
    if (how == 0)
        return fz_either(g, "Mul", x, fz_unary(g, "Sigmoid", NULL, u, 1), bound);
    int t = fz_unary(g, "Tanh", NULL, u, 1);
    if (how == 1) {
        t = plus(g, times(g, t, 0.5), 0.5);
        return fz_either(g, "Mul", x, t, bound);
    }
    t = plus(g, t, 1);
    return fz_either(g, "Mul", times(g, x, 0.5), t, bound);
}

FZ_PICKED(static, add_swish, x, start(g, 1, 4, false)) {
    (void)row;
    double bound = fz_at(g, x)->high;
    int inner = fz_chance(g, 50) ? x : times(g, x, fz_chance(g, 50) ? 1.702 : 0.75);
    int y = fz_either(g, "Mul", x, fz_unary(g, "Sigmoid", NULL, inner, 1), bound);
    if (fz_at(g, x)->rank < 2 || fz_last(g, x, 1).symbol != 0 || fz_chance(g, 60))
        return y;
    int gate = linear(g, x, fz_last(g, x, 1).size); /* SwiGLU */
    return fz_either(g, "Mul", y, gate, bound * fz_at(g, gate)->high);
}

FZ_PICKED(static, add_mish, x, start(g, 1, 4, false)) {
    (void)row;
    double bound = fz_at(g, x)->high;
    int soft = fz_chance(g, 50)
                   ? fz_unary(g, "Softplus", NULL, x, bound + 1)
                   : fz_unary(g, "Log", NULL, plus(g, fz_unary(g, "Exp", NULL, x, exp(bound)), near(g, 1)), bound + 1);
    return fz_either(g, "Mul", x, fz_unary(g, "Tanh", NULL, soft, 1), bound);
}

/* Logarithms of a softmax, and of a sigmoid and what it lacks to 1: one of them, or binary cross-entropy. */
FZ_PICKED(static, add_logs, x, start(g, 1, 4, false)) {
    (void)row;
    double bound = fz_at(g, x)->high + 1;
    if (fz_chance(g, 25))
        return fz_unary(g, "Log", NULL, fz_unary(g, "Softmax", "axis = -1", x, 1), 2 * bound + 4);
    int p = fz_unary(g, "Sigmoid", NULL, x, 1), how = fz_below(g, 3);
    int log = how == 0 ? NONE : fz_unary(g, "Log", NULL, p, bound);
    if (how == 1)
        return log;
    int rest = fz_binary(g, "Sub", fz_number(g, near(g, 1)), p, 1), other = fz_unary(g, "Log", NULL, rest, bound);
    if (how == 0)
        return other;
    log = fz_either(g, "Max", log, fz_number(g, -100), bound);
    other = fz_either(g, "Max", other, fz_number(g, near(g, -100)), bound);
    return fz_binary(g, "Sub", log, other, 2 * bound);
}

/* --- normalizations --------------------------------------------------------------------------- */

/* c / sqrt(v), in its spellings. */
static int over_root(gen *g, int c, int v) {
    int how = fz_below(g, 4);
    if (how == 0)
        return fz_binary(g, "Div", c, fz_unary(g, "Sqrt", NULL, v, 10), 5);
    if (how == 1)
        return fz_binary(g, "Div", c, power(g, v, 0.5), 5);
    int inverse = how == 2 ? fz_unary(g, "Reciprocal", NULL, fz_unary(g, "Sqrt", NULL, v, 10), 40) : power(g, v, -0.5);
    return fz_either(g, "Mul", c, inverse, 5);
}

static int square(gen *g, int x) {
    return fz_chance(g, 50) ? power(g, x, 2) : fz_binary(g, "Mul", x, x, fz_at(g, x)->high * fz_at(g, x)->high);
}

FZ_PICKED(static, add_layer_norm, x, start(g, 1, 4, true)) {
    (void)row;
    double bound = fz_at(g, x)->high;
    fz_dim last = fz_last(g, x, 1);
    int c = fz_binary(g, "Sub", x, fz_reduce(g, "ReduceMean", x, -1, true, bound), 2 * bound);
    int v = plus(g, fz_reduce(g, "ReduceMean", square(g, c), -1, true, 10), 0.0009765625), y = over_root(g, c, v);
    if (fz_chance(g, 25))
        return y;
    int gamma = fz_weight(g, 1, &last);
    y = fz_either(g, "Mul", y, gamma, 5);
    if (fz_chance(g, 25))
        return y;
    int beta = fz_weight(g, 1, &last);
    return fz_either(g, "Add", y, beta, 6);
}

FZ_PICKED(static, add_rms_norm, x, start(g, 1, 4, true)) {
    (void)row;
    fz_dim last = fz_last(g, x, 1);
    int v = plus(g, fz_reduce(g, "ReduceMean", square(g, x), -1, true, 10), 0.0009765625);
    if (fz_chance(g, 75)) {
        int y = over_root(g, x, v);
        return fz_either(g, "Mul", y, fz_weight(g, 1, &last), 5);
    }
    int gamma = fz_weight(g, 1, &last), inverse = fz_unary(g, "Reciprocal", NULL, fz_unary(g, "Sqrt", NULL, v, 10), 32);
    return fz_binary(g, "Mul", x, fz_either(g, "Mul", gamma, inverse, 40), 8);
}

/* Residual connections, as blocks have them: x + f(x), normalized behind or before. */
FZ_PICKED(static, add_block, x, start(g, 2, 3, true)) {
    (void)row;
    fz_dim width = fz_last(g, x, 1);
    fz_value v = *fz_at(g, x);
    int h = linear(g, x, 1 + fz_below(g, 6)), bias = fz_weight(g, 1, (fz_dim[]){fz_last(g, h, 1)});
    h = fz_calm(g, fz_either(g, "Add", h, bias, fz_at(g, h)->high + 1));
    h = fz_unary(g, FZ_ONE_OF(g, "Gelu", "Gelu", "Relu", "Tanh"), NULL, h, fz_at(g, h)->high);
    h = fz_calm(g, linear(g, h, width.size));
    if (fz_chance(g, 50)) {
        int ratio = fz_number(g, 0.25), training = fz_true(g);
        h = fz_call(g, "Dropout", NULL, FZ_IN(h, ratio, training), FZ_FLOAT, v.rank, v.dims, fz_at(g, h)->high * 2);
    }
    h = fz_either(g, "Add", h, x, fz_at(g, h)->high + v.high);
    int scale = fz_weight(g, 1, &width), shift = fz_weight(g, 1, &width);
    h = fz_call(g, "LayerNormalization", "axis = -1, epsilon = 0.001", FZ_IN(h, scale, shift), FZ_FLOAT, v.rank, v.dims,
                4);
    return fz_chance(g, 60) ? linear(g, h, 1 + fz_below(g, 4)) : h;
}

/* --- attention -------------------------------------------------------------------------------- */

/* [b, s, h] as [b, n, s, h / n]. */
static int heads(gen *g, int x, int64_t n) {
    fz_value v = *fz_at(g, x);
    int64_t each = v.dims[2].size / n;
    int split =
        fz_reshape(g, x, 4, (int64_t[]){0, 0, n, each}, (fz_dim[]){v.dims[0], v.dims[1], fz_size(n), fz_size(each)});
    return fz_transpose(g, split, (int[]){0, 2, 1, 3});
}

static int last_two_turned(gen *g, int x) {
    return fz_transpose(g, x, fz_at(g, x)->rank == 3 ? (int[]){0, 2, 1} : (int[]){0, 1, 3, 2});
}

/* What is added to scores or decides which are seen, of shapes that broadcast. */
static int score_input(gen *g, int scores, fz_kind kind) {
    fz_value v = *fz_at(g, scores);
    fz_dim dims[FZ_RANK];
    int rank = fz_chance(g, 50) ? v.rank : 2;
    for (int i = 0; i < rank; i++)
        dims[i] = i + 1 < rank && fz_chance(g, 50) ? fz_size(1) : v.dims[v.rank - rank + i];
    return fz_input(g, kind, rank, dims, kind == FZ_FLOAT ? -1 : 0, 1);
}

static int chosen(gen *g, int scores, int mask, int fill, bool excluded) {
    fz_value v = *fz_at(g, scores);
    double bound = fmax(v.high, fz_at(g, fill)->high);
    return fz_call(g, "Where", NULL, FZ_IN(mask, excluded ? fill : scores, excluded ? scores : fill), FZ_FLOAT, v.rank,
                   v.dims, bound);
}

/* atan2, sinc and x log(b + 1), as PyTorch's exporters write them. */
static int add_special(gen *g, const fz_row *row) {
    (void)row;
    int x = start(g, 1, 4, false), zero = fz_number(g, 0), how = fz_below(g, 3);
    if (x == NONE)
        return NONE;
    double bound = fz_at(g, x)->high, pi = near(g, acos(-1));
    if (how == 0) {
        int y = plus(g, x, 0.5), turn = fz_unary(g, "Atan", NULL, fz_binary(g, "Div", y, x, INFINITY), 2);
        int more = plus(g, turn, pi), less = fz_binary(g, "Sub", turn, fz_number(g, pi), 6);
        int back = chosen(g, less, fz_compare(g, "Greater", y, zero), more, true);
        return chosen(g, turn, fz_compare(g, "Less", x, zero), back, true);
    }
    int none = fz_compare(g, "Equal", x, zero);
    if (how == 1) {
        int u = times(g, x, pi), s = fz_unary(g, "Sin", NULL, u, 1), one = fz_number(g, near(g, 1));
        return chosen(g, fz_binary(g, "Div", s, u, 1), none, one, true);
    }
    int b = fz_unary(g, "Exp", NULL, x, exp(bound));
    int log = fz_unary(g, "Log", NULL, plus(g, b, near(g, 1)), bound + 1);
    int nan = fz_call(g, "IsNaN", NULL, FZ_IN(b), FZ_BOOL, fz_at(g, b)->rank, fz_at(g, b)->dims, 1);
    int y = chosen(g, fz_either(g, "Mul", x, log, bound * (bound + 1)), none, zero, true);
    return chosen(g, y, nan, fz_number(g, NAN), true);
}

/* A bias before the mask, scores that no cap lets grow, and a softmax that takes each row's largest score away. */
static int bounded(gen *g, int s) {
    int how = fz_below(g, 4);
    double high = fz_at(g, s)->high;
    if (how == 0) {
        int cap = fz_number(g, 5), t = fz_unary(g, "Tanh", NULL, fz_binary(g, "Div", s, cap, high / 5), 1);
        return fz_binary(g, "Mul", t, cap, 5);
    }
    if (how == 1) {
        int most = fz_reduce(g, "ReduceMax", s, -1, true, high);
        return fz_binary(g, "Sub", s, most, 2 * high);
    }
    s = fz_either(g, "Add", s, score_input(g, s, FZ_FLOAT), high + 1);
    int mask = score_input(g, s, FZ_BOOL), fill = fz_number(g, -10000);
    return chosen(g, s, mask, fill, how == 2);
}

static int masked(gen *g, int s) {
    if (fz_chance(g, 25))
        return bounded(g, s);
    int how = fz_below(g, 6);
    if (how == 0) {
        static const double fills[] = {-10000, -1e30, -0.5}; /* the last is no mask's, but for the bias */
        int mask = score_input(g, s, FZ_BOOL), fill = fz_number(g, fills[fz_below(g, 3)]);
        s = chosen(g, s, mask, fill, false);
    } else if (how == 1) {
        int mask = score_input(g, s, FZ_BOOL), fill = fz_number(g, -10000);
        s = chosen(g, s, mask, fill, true);
    }
    if (how == 0 || how == 2 || how == 3)
        s = fz_either(g, "Add", s, score_input(g, s, FZ_FLOAT), fz_at(g, s)->high + 1);
    return how == 3 ? fz_either(g, "Add", s, score_input(g, s, FZ_FLOAT), fz_at(g, s)->high + 1) : s;
}

/* Scores of windows of pictures: the batch is split for a mask of its own for each window, then joined again. */
static int of_windows(gen *g, int s) {
    fz_value v = *fz_at(g, s);
    int64_t batch = v.dims[0].size, n = v.dims[1].size, windows = batch % 2 == 0 ? 2 : 1, rows = v.dims[2].size,
            columns = v.dims[3].size;
    fz_dim split[] = {fz_size(batch / windows), fz_size(windows), v.dims[1], v.dims[2], v.dims[3]};
    int bias = fz_weight(g, 4, (fz_dim[]){fz_size(1), v.dims[1], v.dims[2], v.dims[3]});
    s = fz_either(g, "Add", s, bias, v.high + 1.25);
    s = fz_reshape(g, s, 5, (int64_t[]){-1, windows, n, rows, columns}, split);
    int mask =
        fz_input(g, FZ_FLOAT, 5, (fz_dim[]){fz_size(1), fz_size(windows), fz_size(1), v.dims[2], v.dims[3]}, -1, 1);
    s = fz_either(g, "Add", s, mask, v.high + 2.25);
    return fz_reshape(g, s, 4, (int64_t[]){-1, n, rows, columns}, v.dims);
}

static bool has_windows(gen *g, int s) {
    const fz_value *v = fz_at(g, s);
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i].symbol != 0)
            return false;
    return v->rank == 4 && fz_chance(g, 20);
}

/* Softmax, and what makes rows 0 that see no key. */
static int probabilities(gen *g, int s) {
    fz_value v = *fz_at(g, s);
    int how = fz_below(g, 7);
    if (how == 0 && fz_chance(g, 50)) { /* NaN behind the softmax */
        int mask = score_input(g, s, FZ_BOOL), fill = fz_number(g, -INFINITY), zero = fz_number(g, 0);
        int w = fz_unary(g, "Softmax", "axis = -1", chosen(g, s, mask, fill, false), 1);
        int nan = fz_call(g, "IsNaN", NULL, FZ_IN(w), FZ_BOOL, v.rank, v.dims, 1);
        return fz_call(g, "Where", NULL, FZ_IN(nan, zero, w), FZ_FLOAT, v.rank, v.dims, 1);
    }
    if (how == 1) { /* known before it */
        int mask = score_input(g, s, FZ_BOOL), zero = fz_number(g, 0), fill = fz_number(g, -INFINITY);
        fz_value m = *fz_at(g, mask);
        int bias = fz_call(g, "Where", NULL, FZ_IN(mask, zero, fill), FZ_FLOAT, m.rank, m.dims, INFINITY);
        if (fz_chance(g, 50))
            bias = fz_either(g, "Add", bias, fz_input(g, FZ_FLOAT, m.rank, m.dims, -1, 1), INFINITY);
        int most = fz_reduce(g, "ReduceMax", bias, -1, true, INFINITY);
        fz_value e = *fz_at(g, most);
        int empty = fz_call(g, "IsInf", "detect_positive = 0", FZ_IN(most), FZ_BOOL, e.rank, e.dims, 1);
        int u = fz_either(g, "Add", s, bias, INFINITY),
            safe = fz_call(g, "Where", NULL, FZ_IN(empty, zero, u), FZ_FLOAT, v.rank, v.dims, INFINITY);
        int p = fz_unary(g, "Softmax", "axis = -1", safe, 1);
        return fz_call(g, "Where", NULL, FZ_IN(empty, zero, p), FZ_FLOAT, v.rank, v.dims, 1);
    }
    if (how == 0) { /* once more behind it */
        int mask = score_input(g, s, FZ_BOOL), fill = fz_number(g, -INFINITY), zero = fz_number(g, 0);
        int w = fz_unary(g, "Softmax", "axis = -1", chosen(g, s, mask, fill, true), 1);
        return fz_call(g, "Where", NULL, FZ_IN(mask, zero, w), FZ_FLOAT, v.rank, v.dims, 1);
    }
    return fz_unary(g, "Softmax", "axis = -1", s, 1);
}

static int scaled(gen *g, int x, int percent, double by) {
    if (!fz_chance(g, percent))
        return x;
    return fz_chance(g, 50) ? times(g, x, by) : fz_binary(g, "Div", x, fz_number(g, 1 / by), fz_at(g, x)->high * by);
}

FZ_PICKED(static, add_attention, x, start(g, 3, 3, true)) {
    (void)row;
    int64_t width = 1 + fz_below(g, 5), n = width % 2 == 0 ? 2 : 1;
    int q = fz_calm(g, linear(g, x, width)), k = fz_calm(g, linear(g, x, width)), v = fz_calm(g, linear(g, x, width));
    if (fz_chance(g, 50)) {
        q = heads(g, q, n);
        k = heads(g, k, n);
        v = heads(g, v, n);
    }
    double root = sqrt(sqrt(0.5));
    int kt = scaled(g, last_two_turned(g, k), 25, root);
    q = scaled(g, q, 30, root);
    int s = fz_matmul(g, q, kt);
    s = fz_calm(g, scaled(g, s, 50, 0.5));
    bool windows = has_windows(g, s);
    s = windows ? of_windows(g, s) : masked(g, s);
    int p = windows ? fz_unary(g, "Softmax", "axis = -1", s, 1) : probabilities(g, s);
    if (fz_chance(g, 40)) {
        fz_value w = *fz_at(g, p);
        int ratio = fz_number(g, 0.25), training = fz_true(g);
        p = fz_call(g, "Dropout", NULL, FZ_IN(p, ratio, training), FZ_FLOAT, w.rank, w.dims, 2);
    }
    int y = fz_matmul(g, p, v);
    if (fz_at(g, y)->rank == 3)
        return y;
    y = fz_transpose(g, y, (int[]){0, 2, 1, 3});
    fz_value t = *fz_at(g, y);
    return fz_reshape(g, y, 3, (int64_t[]){0, 0, width}, (fz_dim[]){t.dims[0], t.dims[1], fz_size(width)});
}

/* --- embeddings ------------------------------------------------------------------------------- */

static int add_embedding(gen *g, const fz_row *row) {
    (void)row;
    fz_dim rows = fz_size(2 + fz_below(g, 5)), width = fz_size(1 + fz_below(g, 5)),
           at[2] = {fz_symbol(g, 0), fz_symbol(g, 1)};
    int rank = 1 + fz_below(g, 2), table = fz_weight(g, 2, (fz_dim[]){rows, width}),
        ids = fz_input(g, FZ_INT, rank, at, 0, (double)rows.size);
    fz_dim dims[] = {at[0], rank == 2 ? at[1] : width, width};
    return fz_call(g, "Gather", NULL, FZ_IN(table, ids), FZ_FLOAT, rank + 1, dims, 1.25);
}

const fz_row fz_patterns[] = {
    {"gelu by erf", 4, add_gelu_erf, 0, 0, NULL},       {"gelu by tanh", 4, add_gelu_tanh, 0, 0, NULL},
    {"x tanh(softplus x)", 2, add_mish, 0, 0, NULL},    {"logarithms of chances", 4, add_logs, 0, 0, NULL},
    {"x sigmoid(x)", 4, add_swish, 0, 0, NULL},         {"layer normalization", 5, add_layer_norm, 0, 0, NULL},
    {"RMS normalization", 5, add_rms_norm, 0, 0, NULL}, {"block", 6, add_block, 0, 0, NULL},
    {"attention", 8, add_attention, 0, 0, NULL},        {"embedding", 2, add_embedding, 0, 0, NULL},
    {"atan2 and others", 3, add_special, 0, 0, NULL},
};
const int fz_n_patterns = sizeof fz_patterns / sizeof *fz_patterns;
