/* recipe_ops.c: the table of single ops that programs are made of: how often, what keeps operands away from poles and
 * kinks, which shape rule. Rows of one form share a function. Movement is in movement.c. */
#include "recipe_build.h"
#include <math.h>
#include <string.h>

enum { PLAIN, SQUASHED, POSITIVE, ABOVE_ONE }; /* what is done to an operand first */

static int positive(gen *g, int x) {
    double bound = fz_at(g, x)->high;
    int how = fz_below(g, 3);
    return how == 0   ? fz_unary(g, "Softplus", NULL, x, bound + 1)
           : how == 1 ? fz_unary(g, "Abs", NULL, x, bound)
                      : fz_binary(g, "Mul", x, x, bound * bound);
}

static int guarded(gen *g, int x, int form) {
    if (form == PLAIN)
        return x;
    int made = form == SQUASHED ? fz_unary(g, "Tanh", NULL, x, 1) : fz_calm(g, positive(g, fz_calm(g, x)));
    int number = fz_number(g, form == SQUASHED ? 0.75 : form == POSITIVE ? 0.5 : 1.5);
    return form == SQUASHED ? fz_either(g, "Mul", made, number, 0.75)
                            : fz_either(g, "Add", made, number, fz_at(g, made)->high + 1.5);
}

static int operand(gen *g, int least_rank, int most_rank) {
    int x = fz_pick(g, FZ_FLOAT, least_rank, most_rank);
    return x == NONE ? NONE : fz_calm(g, x);
}

static double at_most(double bound, double most) { return most > 0 && most < bound ? most : bound; }

/* --- elementwise ------------------------------------------------------------------------------ */

FZ_PICKED(static, add_unary, x, operand(g, 0, 4)) {
    x = guarded(g, x, row->form);
    return fz_unary(g, row->op, row->attrs, x, at_most(fz_at(g, x)->high + 1, row->bound));
}

enum { SUM_OF, PRODUCT_OF, QUOTIENT_OF, LARGER_OF };

static double bound_of(int form, double x, double y) {
    return form == SUM_OF ? x + y : form == PRODUCT_OF ? x * y : form == QUOTIENT_OF ? 2 * x : fmax(x, y);
}

FZ_PICKED(static, add_binary, a, operand(g, 0, 4)) {
    int b = fz_calm(g, fz_partner(g, a));
    if (!fz_broadcasts(g, a, b))
        return NONE;
    b = row->form == QUOTIENT_OF ? guarded(g, b, POSITIVE) : b;
    double bound = bound_of(row->form, fz_at(g, a)->high, fz_at(g, b)->high);
    return row->form == QUOTIENT_OF ? fz_binary(g, row->op, a, b, bound) : fz_either(g, row->op, a, b, bound);
}

/* Whether b broadcasts against a and leaves its shape. */
static bool within(gen *g, int a, int b) {
    const fz_value *x = fz_at(g, a), *y = fz_at(g, b);
    bool within = fz_broadcasts(g, a, b) && y->rank <= x->rank;
    for (int i = 1; within && i <= y->rank; i++)
        within = fz_same_dim(g, fz_last(g, a, i), fz_last(g, b, i)) ||
                 (fz_last(g, b, i).size == 1 && fz_last(g, b, i).symbol == 0);
    return within;
}

static int add_variadic(gen *g, const fz_row *row) {
    int x = operand(g, 0, 3), n = 1 + fz_below(g, 4), in[4] = {x};
    if (x == NONE)
        return NONE;
    double bound = fz_at(g, x)->high;
    for (int i = 1; i < n; i++) {
        in[i] = fz_calm(g, fz_partner(g, x));
        in[i] = within(g, x, in[i]) ? in[i] : fz_number(g, 0.5);
        bound += fz_at(g, in[i])->high;
    }
    fz_value v = *fz_at(g, x);
    return fz_call(g, row->op, NULL, n, in, FZ_FLOAT, v.rank, v.dims, bound);
}

static int add_pow(gen *g, const fz_row *row) {
    static const double exponents[] = {2, 3, 0.5, -0.5, 1, 2, -1};
    int x = operand(g, 0, 4), which = fz_below(g, 8);
    if (x == NONE)
        return NONE;
    if (which == 7) {
        x = guarded(g, x, POSITIVE);
        int to = guarded(g, fz_partner(g, x), SQUASHED);
        return fz_broadcasts(g, x, to) ? fz_binary(g, row->op, x, to, fz_at(g, x)->high + 2) : NONE;
    }
    double e = exponents[which];
    x = e >= 1 ? x : guarded(g, x, POSITIVE);
    return fz_binary(g, row->op, x, fz_number(g, e), pow(fmax(1, fz_at(g, x)->high), fabs(e)) * 2);
}

FZ_PICKED(static, add_prelu, x, operand(g, 1, 4)) {
    fz_dim dim = fz_last(g, x, 1);
    return fz_binary(g, row->op, x, fz_weight(g, 1, &(fz_dim){dim.symbol ? 1 : dim.size, 0}), fz_at(g, x)->high * 1.25);
}

static int add_clip(gen *g, const fz_row *row) {
    int x = operand(g, 0, 4), which = fz_below(g, 3);
    if (x == NONE)
        return NONE;
    fz_value v = *fz_at(g, x);
    int low = which == 1 ? NONE : fz_number(g, -0.75), high = which == 0 ? NONE : fz_number(g, 0.875);
    return fz_call(g, row->op, NULL, which == 0 ? 2 : 3, (int[]){x, low, high}, FZ_FLOAT, v.rank, v.dims, v.high + 1);
}

FZ_PICKED(static, add_where, a, operand(g, 0, 4)) {
    int b = fz_chance(g, 25) ? fz_number(g, -0.5) : fz_calm(g, fz_partner(g, a));
    fz_dim dims[FZ_RANK];
    if (!fz_broadcasts(g, a, b))
        return NONE;
    int rank = fz_joined(g, a, b, dims), mask = fz_mask(g, a);
    bool swap = fz_chance(g, 50);
    double bound = fmax(fz_at(g, a)->high, fz_at(g, b)->high);
    return fz_broadcasts(g, b, mask)
               ? fz_call(g, row->op, NULL, FZ_IN(mask, swap ? b : a, swap ? a : b), FZ_FLOAT, rank, dims, bound)
               : NONE;
}

FZ_PICKED(static, add_dropout, x, operand(g, 0, 4)) {
    fz_value v = *fz_at(g, x);
    int ratio = fz_number(g, fz_chance(g, 50) ? 0.25 : 0.5), training = fz_true(g);
    int node = fz_node_add(g, row->op, FZ_ONE_OF(g, "", "", "seed = 7"), FZ_IN(x, ratio, training));
    int y = fz_result(g, node, FZ_FLOAT, v.rank, v.dims, v.high * 2);
    if (fz_chance(g, 15))
        fz_result(g, node, FZ_BOOL, v.rank, v.dims, 1);
    return y;
}

/* --- booleans and integers -------------------------------------------------------------------- */

FZ_PICKED(static, add_compare, a, fz_pick(g, FZ_FLOAT, 0, 4)) {
    int b = fz_partner(g, a);
    return a != b && fz_broadcasts(g, a, b) ? fz_compare(g, row->op, a, b) : NONE;
}

static int add_logic(gen *g, const fz_row *row) {
    int a = fz_pick(g, FZ_BOOL, 0, 4), b = fz_pick(g, FZ_BOOL, 0, 4);
    if (a == NONE || b == NONE || !fz_broadcasts(g, a, b))
        return NONE;
    return row->form ? fz_unary(g, row->op, NULL, a, 1) : fz_compare(g, row->op, a, b);
}

static int add_cast(gen *g, const fz_row *row) {
    int x = fz_pick(g,
                    fz_chance(g, 20)   ? FZ_FLOAT
                    : fz_chance(g, 50) ? FZ_BOOL
                                       : FZ_INT,
                    0, 4),
        like = row->form ? fz_pick(g, FZ_FLOAT, 0, 4) : NONE;
    if (x == NONE || (row->form && like == NONE))
        return NONE;
    fz_value v = *fz_at(g, x);
    if (row->form)
        return fz_call(g, row->op, NULL, FZ_IN(x, like), FZ_FLOAT, v.rank, v.dims,
                       v.kind == FZ_FLOAT  ? v.high
                       : v.kind == FZ_BOOL ? 1
                                           : 8);
    return fz_call(g, row->op, "to = @", FZ_IN(x), FZ_FLOAT, v.rank, v.dims,
                   v.kind == FZ_FLOAT  ? v.high
                   : v.kind == FZ_BOOL ? 1
                                       : 8);
}

/* --- reductions ------------------------------------------------------------------------------- */

enum { BY_COUNT = -1, AS_OPERAND = -2, SQUARES = -3 }; /* bounds */

static double reduced_bound(double rule, double x, double count) {
    return rule == BY_COUNT ? x * count + 3 : rule == AS_OPERAND ? x : rule == SQUARES ? x * x * count : rule;
}

FZ_PICKED(static, add_reduce, x, operand(g, 1, 4)) {
    x = guarded(g, x, row->form);
    fz_value v = *fz_at(g, x);
    bool keep = fz_chance(g, 50), all = fz_chance(g, 20);
    int n = 0, rank = 0;
    int64_t axes[FZ_RANK];
    fz_dim dims[FZ_RANK];
    double over = 1;
    for (int i = 0; i < v.rank; i++) {
        bool reduced = all || (i + 1 == v.rank && n == 0) || fz_chance(g, 40);
        over *= reduced ? (double)v.dims[i].size : 1;
        if (reduced)
            axes[n++] = fz_chance(g, 50) ? i : i - v.rank;
        if (!reduced || keep)
            dims[rank++] = reduced ? fz_size(1) : v.dims[i];
    }
    int in[2] = {x, all ? NONE : fz_ints(g, n, axes)};
    return fz_call(g, row->op, keep ? "keepdims = 1" : "keepdims = 0", all ? 1 : 2, in, FZ_FLOAT, rank, dims,
                   reduced_bound(row->bound, v.high, over));
}

FZ_PICKED(static, add_along, x, operand(g, 1, 4)) { /* Softmax and its like: `axis` is an attribute */
    x = guarded(g, x, row->form);
    char attrs[FZ_ATTRS];
    snprintf(attrs, sizeof attrs, "axis = %d", fz_chance(g, 60) ? -1 : fz_below(g, fz_at(g, x)->rank));
    return fz_unary(g, row->op, attrs, x, at_most(2 * fz_at(g, x)->high + 3, row->bound));
}

FZ_PICKED(static, add_cumsum, x, operand(g, 1, 4)) {
    fz_value v = *fz_at(g, x);
    int64_t axis = fz_below(g, v.rank);
    int at = fz_ints(g, -1, &axis);
    return fz_call(g, row->op, FZ_ONE_OF(g, "", "reverse = 1", "exclusive = 1"), FZ_IN(x, at), FZ_FLOAT, v.rank, v.dims,
                   v.high * 5);
}

static int add_topk(gen *g, const fz_row *row) {
    int x = operand(g, 1, 3);
    if (x == NONE || fz_last(g, x, 1).symbol != 0)
        return NONE;
    fz_value v = *fz_at(g, x);
    int64_t k = 1 + fz_below(g, (int)fz_last(g, x, 1).size);
    int count = fz_ints(g, 1, &k);
    int node = fz_node_add(g, row->op, FZ_ONE_OF(g, "", "largest = 0"), FZ_IN(x, count));
    v.dims[v.rank - 1] = fz_size(k);
    int y = fz_result(g, node, FZ_FLOAT, v.rank, v.dims, v.high);
    fz_result(g, node, FZ_INT, v.rank, v.dims, 8);
    return y;
}

/* --- products --------------------------------------------------------------------------------- */

static bool fits_product(gen *g, int a, int b, bool turned) {
    bool fits = fz_same_dim(g, fz_last(g, b, turned ? 1 : 2), fz_last(g, a, 1));
    for (int i = 3; fits && i <= fz_at(g, b)->rank && i <= fz_at(g, a)->rank; i++)
        fits = fz_same_dim(g, fz_last(g, a, i), fz_last(g, b, i));
    return fits;
}

static int turned(gen *g, int x) {
    int perm[FZ_RANK], rank = fz_at(g, x)->rank;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return fz_transpose(g, x, perm);
}

FZ_PICKED(static, add_matmul, a, operand(g, 2, 4)) {
    (void)row;
    for (int tries = fz_chance(g, 50) ? 6 : 0; tries > 0; tries--) {
        int b = fz_pick(g, FZ_FLOAT, 2, 4);
        bool turn = fz_chance(g, 50);
        if (b != NONE && fz_at(g, b)->high <= CALM && fits_product(g, a, b, turn))
            return fz_matmul(g, a, turn ? turned(g, b) : b);
    }
    fz_dim k = fz_last(g, a, 1), n = fz_size(1 + fz_below(g, 5));
    return k.symbol != 0 ? NONE : fz_matmul(g, a, fz_weight(g, 2, (fz_dim[]){k, n}));
}

FZ_PICKED(static, add_gemm, a, operand(g, 2, 2)) {
    bool turn_a = fz_chance(g, 30), turn_b = fz_chance(g, 50);
    fz_dim m = fz_last(g, a, turn_a ? 1 : 2), k = fz_last(g, a, turn_a ? 2 : 1), n = fz_size(1 + fz_below(g, 5));
    if (k.symbol != 0)
        return NONE;
    int b = fz_weight(g, 2, turn_b ? (fz_dim[]){n, k} : (fz_dim[]){k, n}), c = NONE;
    if (fz_chance(g, 70))
        c = fz_weight(g, fz_chance(g, 80), &n);
    char attrs[FZ_ATTRS];
    snprintf(attrs, sizeof attrs, "transA = %d, transB = %d%s", turn_a, turn_b,
             FZ_ONE_OF(g, "", ", alpha = 0.5", ", beta = 0.25"));
    return fz_call(g, row->op, attrs, c == NONE ? 2 : 3, (int[]){a, b, c}, FZ_FLOAT, 2, (fz_dim[]){m, n},
                   1.25 * (fz_at(g, a)->high * 5 + 1));
}

FZ_PICKED(static, add_einsum, a, operand(g, 3, 3)) {
    fz_value v = *fz_at(g, a);
    double k = (double)v.dims[2].size * v.high;
    if (v.dims[2].symbol == 0 && fz_chance(g, 60)) {
        fz_dim n = fz_size(1 + fz_below(g, 4));
        return fz_call(g, row->op, "equation = \"abc,cd->adb\"", FZ_IN(a, fz_weight(g, 2, (fz_dim[]){v.dims[2], n})),
                       FZ_FLOAT, 3, (fz_dim[]){v.dims[0], n, v.dims[1]}, k * 1.25);
    }
    return fz_call(g, row->op, "equation = \"abc,adc->abd\"", FZ_IN(a, a), FZ_FLOAT, 3,
                   (fz_dim[]){v.dims[0], v.dims[1], v.dims[1]}, k * v.high);
}

/* --- normalizations --------------------------------------------------------------------------- */

static int add_layer_norm(gen *g, const fz_row *row) {
    int x = operand(g, 1, 4), n = 1 + fz_chance(g, 15);
    if (x == NONE || fz_at(g, x)->rank < n || fz_last(g, x, 1).symbol != 0 || fz_last(g, x, n).symbol != 0)
        return NONE;
    fz_value v = *fz_at(g, x);
    char attrs[FZ_ATTRS];
    snprintf(attrs, sizeof attrs, "axis = %d, epsilon = 0.001", fz_chance(g, 70) ? -n : v.rank - n);
    int scale = fz_weight(g, n, v.dims + v.rank - n),
        bias = fz_chance(g, 75) ? fz_weight(g, n, v.dims + v.rank - n) : NONE;
    return fz_call(g, row->op, attrs, bias == NONE ? 2 : 3, (int[]){x, scale, bias}, FZ_FLOAT, v.rank, v.dims, 4);
}

enum { INSTANCE, GROUP, BATCH };

static int add_channel_norm(gen *g, const fz_row *row) {
    int x = operand(g, 3, 4);
    if (x == NONE || fz_at(g, x)->dims[1].symbol != 0)
        return NONE;
    fz_value v = *fz_at(g, x);
    int64_t c = v.dims[1].size;
    char attrs[FZ_ATTRS] = "epsilon = 0.001";
    if (row->form == GROUP)
        snprintf(attrs, sizeof attrs, "epsilon = 0.001, num_groups = %d",
                 fz_chance(g, 50) ? 1 : (int)(c % 2 == 0 ? 2 : c));
    int in[5] = {x, fz_weight(g, 1, &v.dims[1]), NONE, NONE, NONE}, n = row->form == BATCH ? 5 : 3;
    for (int i = 2; i < n; i++)
        in[i] = fz_weight(g, 1, &v.dims[1]);
    if (row->form == BATCH)
        g->p->values[in[4]].low = 0.5;
    return fz_call(g, row->op, attrs, n, in, FZ_FLOAT, v.rank, v.dims, row->form == BATCH ? 3 * v.high + 3 : 4);
}

/* --- the table -------------------------------------------------------------------------------- */
const fz_row fz_ops[] = {
    {"Abs", 3, add_unary, PLAIN, 0, NULL},
    {"Acos", 1, add_unary, SQUASHED, 3, NULL},
    {"Acosh", 1, add_unary, ABOVE_ONE, 0, NULL},
    {"Asin", 1, add_unary, SQUASHED, 2, NULL},
    {"Asinh", 1, add_unary, PLAIN, 0, NULL},
    {"Atan", 1, add_unary, PLAIN, 2, NULL},
    {"Atanh", 1, add_unary, SQUASHED, 2, NULL},
    {"Ceil", 1, add_unary, PLAIN, 0, NULL},
    {"Celu", 1, add_unary, PLAIN, 0, "alpha = 0.75"},
    {"Cos", 2, add_unary, PLAIN, 1, NULL},
    {"Cosh", 1, add_unary, SQUASHED, 2, NULL},
    {"Elu", 2, add_unary, PLAIN, 0, "alpha = 0.5"},
    {"Erf", 3, add_unary, PLAIN, 1, NULL},
    {"Exp", 4, add_unary, SQUASHED, 3, NULL},
    {"Floor", 1, add_unary, PLAIN, 0, NULL},
    {"Gelu", 6, add_unary, PLAIN, 0, NULL},
    {"Gelu", 3, add_unary, PLAIN, 0, "approximate = \"tanh\""},
    {"HardSigmoid", 1, add_unary, PLAIN, 1, NULL},
    {"HardSwish", 1, add_unary, PLAIN, 0, NULL},
    {"Identity", 3, add_unary, PLAIN, 0, NULL},
    {"LeakyRelu", 2, add_unary, PLAIN, 0, "alpha = 0.125"},
    {"Log", 3, add_unary, POSITIVE, 0, NULL},
    {"Mish", 1, add_unary, PLAIN, 0, NULL},
    {"Neg", 4, add_unary, PLAIN, 0, NULL},
    {"Reciprocal", 3, add_unary, POSITIVE, 2, NULL},
    {"Relu", 6, add_unary, PLAIN, 0, NULL},
    {"Round", 1, add_unary, PLAIN, 0, NULL},
    {"Selu", 1, add_unary, PLAIN, 0, NULL},
    {"Shrink", 1, add_unary, PLAIN, 0, "bias = 0.25, lambd = 0.5"},
    {"Sigmoid", 5, add_unary, PLAIN, 1, NULL},
    {"Sign", 1, add_unary, PLAIN, 1, NULL},
    {"Sin", 2, add_unary, PLAIN, 1, NULL},
    {"Sinh", 1, add_unary, SQUASHED, 1, NULL},
    {"Softplus", 2, add_unary, PLAIN, 0, NULL},
    {"Softsign", 1, add_unary, PLAIN, 1, NULL},
    {"Sqrt", 3, add_unary, POSITIVE, 0, NULL},
    {"Tan", 1, add_unary, SQUASHED, 1, NULL},
    {"Tanh", 8, add_unary, PLAIN, 1, NULL},
    {"ThresholdedRelu", 1, add_unary, PLAIN, 0, "alpha = 0.25"},
    {"Add", 14, add_binary, SUM_OF, 0, NULL},
    {"Div", 6, add_binary, QUOTIENT_OF, 0, NULL},
    {"Mul", 14, add_binary, PRODUCT_OF, 0, NULL},
    {"Sub", 7, add_binary, SUM_OF, 0, NULL},
    {"Max", 2, add_binary, LARGER_OF, 0, NULL},
    {"Min", 2, add_binary, LARGER_OF, 0, NULL},
    {"Mean", 2, add_variadic, 0, 0, NULL},
    {"Sum", 3, add_variadic, 0, 0, NULL},
    {"Max", 1, add_variadic, 0, 0, NULL},
    {"Pow", 4, add_pow, 0, 0, NULL},
    {"PRelu", 1, add_prelu, 0, 0, NULL},
    {"Clip", 2, add_clip, 0, 0, NULL},
    {"Where", 7, add_where, 0, 0, NULL},
    {"Dropout", 10, add_dropout, 0, 0, NULL},
    {"Less", 2, add_compare, 0, 0, NULL},
    {"Greater", 2, add_compare, 0, 0, NULL},
    {"LessOrEqual", 1, add_compare, 0, 0, NULL},
    {"GreaterOrEqual", 1, add_compare, 0, 0, NULL},
    {"And", 1, add_logic, 0, 0, NULL},
    {"Or", 1, add_logic, 0, 0, NULL},
    {"Xor", 1, add_logic, 0, 0, NULL},
    {"Not", 2, add_logic, 1, 0, NULL},
    {"Cast", 2, add_cast, 0, 0, NULL},
    {"CastLike", 1, add_cast, 1, 0, NULL},
    {"ReduceL1", 1, add_reduce, PLAIN, BY_COUNT, NULL},
    {"ReduceL2", 1, add_reduce, POSITIVE, BY_COUNT, NULL},
    {"ReduceLogSum", 1, add_reduce, POSITIVE, BY_COUNT, NULL},
    {"ReduceLogSumExp", 1, add_reduce, PLAIN, BY_COUNT, NULL},
    {"ReduceMax", 2, add_reduce, PLAIN, AS_OPERAND, NULL},
    {"ReduceMean", 5, add_reduce, PLAIN, AS_OPERAND, NULL},
    {"ReduceMin", 1, add_reduce, PLAIN, AS_OPERAND, NULL},
    {"ReduceProd", 1, add_reduce, SQUASHED, 1, NULL},
    {"ReduceSum", 5, add_reduce, PLAIN, BY_COUNT, NULL},
    {"ReduceSumSquare", 1, add_reduce, PLAIN, SQUARES, NULL},
    {"Softmax", 6, add_along, PLAIN, 1, NULL},
    {"LogSoftmax", 3, add_along, PLAIN, 0, NULL},
    {"CumSum", 1, add_cumsum, 0, 0, NULL},
    {"TopK", 1, add_topk, 0, 0, NULL},
    {"MatMul", 16, add_matmul, 0, 0, NULL},
    {"Gemm", 4, add_gemm, 0, 0, NULL},
    {"Einsum", 1, add_einsum, 0, 0, NULL},
    {"LayerNormalization", 10, add_layer_norm, 0, 0, NULL},
    {"InstanceNormalization", 1, add_channel_norm, INSTANCE, 0, NULL},
    {"GroupNormalization", 1, add_channel_norm, GROUP, 0, NULL},
    {"BatchNormalization", 1, add_channel_norm, BATCH, 0, NULL},
    {"Transpose", 7, fz_add_transpose, 0, 0, NULL},
    {"Reshape", 7, fz_add_reshape, 0, 0, NULL},
    {"Unsqueeze", 3, fz_add_unsqueeze, 0, 0, NULL},
    {"Squeeze", 3, fz_add_squeeze, 0, 0, NULL},
    {"Flatten", 1, fz_add_flatten, 0, 0, NULL},
    {"Expand", 3, fz_add_expand, 0, 0, NULL},
    {"Tile", 1, fz_add_tile, 0, 0, NULL},
    {"Slice", 4, fz_add_slice, 0, 0, NULL},
    {"Concat", 4, fz_add_concat, 0, 0, NULL},
    {"Split", 3, fz_add_split, 0, 0, NULL},
    {"Pad", 1, fz_add_pad, 0, 0, NULL},
    {"Trilu", 1, fz_add_trilu, 0, 0, NULL},
    {"Gather", 4, fz_add_gather, 0, 0, NULL},
    {"GatherElements", 1, fz_add_gather_elements, 0, 0, NULL},
    {"GatherND", 1, fz_add_gather_nd, 0, 0, NULL},
    {"ScatterElements", 1, fz_add_scatter_elements, 0, 0, NULL},
    {"ScatterND", 1, fz_add_scatter_nd, 0, 0, NULL},
    {"Conv", 2, fz_add_conv, 0, 0, NULL},
    {"ConvTranspose", 1, fz_add_conv_transpose, 0, 0, NULL},
    {"DepthToSpace", 1, fz_add_blocks, 1, 0, NULL},
    {"SpaceToDepth", 1, fz_add_blocks, 2, 0, NULL},
    {"AveragePool", 1, fz_add_pool, 0, 0, NULL},
    {"MaxPool", 1, fz_add_pool, 0, 0, NULL},
    {"GlobalAveragePool", 1, fz_add_pool, 1, 0, NULL},
    {"RNN", 1, fz_add_recurrent, 1, 0, NULL},
    {"GRU", 1, fz_add_recurrent, 3, 0, NULL},
    {"LSTM", 1, fz_add_recurrent, 4, 0, NULL},
    {"Shape", 6, fz_add_shape_arithmetic, 0, 0, NULL},
};
const int fz_n_ops = sizeof fz_ops / sizeof *fz_ops;
