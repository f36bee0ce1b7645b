/* gradient_grid_sample.c: the gradient of GridSample (mode linear, nearest or cubic; one to three axes), in standard
 * ops. Each output position reads taps along each axis: elements at some index, with a weight that has a slope in
 * the coordinate. The taps of all axes combine to `combined` reads per position. dX adds dY times the weights at the
 * positions read; dGrid sums dY times the elements read times the weights' slopes. Coordinates outside the input
 * follow PyTorch's grid_sampler: their slope is 0 where they are clamped to a border. */
#include "compiler/ir/ops.h"
#include "gradients.h"
#include <string.h>

enum { AXES = 3, TAPS = 4, COMBINED = TAPS * TAPS };

/* One axis, each [batch, places], in the type of the computation. */
typedef struct axis_taps {
    int n;
    tc_value *index[TAPS], *weight[TAPS], *slope[TAPS]; /* index: whole numbers in the input; slope NULL: 0 */
} axis_taps;

typedef struct sampling {
    tc_build *g;
    const char *mode, *padding;
    bool align;
    int n_axes;
    tc_value *one, *half; /* scalars of the type */
} sampling;

static tc_value *number(const sampling *s, double value) { return tc_build_like(s->g, s->one, value); }
static tc_value *op(const sampling *s, const char *name, tc_value *a, tc_value *b) { return TC_OP(s->g, name, a, b); }
static tc_value *by(const sampling *s, tc_value *a, double number_b) { return op(s, "Mul", a, number(s, number_b)); }

/* 1 where it holds, else 0. */
static tc_value *indicator(const sampling *s, tc_value *holds) {
    return tc_build_cast(s->g, holds, tc_value_dtype(s->one));
}

/* x clamped to [0, size - 1], and 1 where it was strictly inside. */
static tc_value *hold(const sampling *s, tc_value *x, tc_value *last, tc_value **out_inside) {
    tc_value *zero = number(s, 0);
    if (out_inside)
        *out_inside = indicator(s, op(s, "And", op(s, "Greater", x, zero), op(s, "Less", x, last)));
    return op(s, "Min", op(s, "Max", x, zero), last);
}

/* x reflected at the ends, and its slope, 1 or -1. A span of 0 (one element, aligned) is replaced by 1: the clamp
 * after it makes everything 0. */
static tc_value *reflect(const sampling *s, tc_value *x, tc_value *size, tc_value **out_slope) {
    const double low = s->align ? 0 : -0.5;
    tc_value *span = s->align ? op(s, "Max", op(s, "Sub", size, s->one), s->one) : size;
    tc_value *moved = op(s, "Sub", x, number(s, low)), *far = TC_OP(s->g, "Abs", moved);
    tc_value *times = TC_OP(s->g, "Floor", op(s, "Div", far, span));
    tc_value *rest = op(s, "Sub", far, op(s, "Mul", times, span));
    tc_value *odd = op(s, "Sub", times, by(s, TC_OP(s->g, "Floor", by(s, times, 0.5)), 2));
    /* rest where even, span - rest where odd */
    tc_value *sign = op(s, "Sub", s->one, by(s, odd, 2));
    if (out_slope)
        *out_slope = op(s, "Mul", sign, TC_OP(s->g, "Sign", moved));
    return op(s, "Add", op(s, "Add", op(s, "Mul", rest, sign), op(s, "Mul", odd, span)), number(s, low));
}

static tc_value *padded(const sampling *s, tc_value *x, tc_value *size, tc_value **slope) {
    tc_value *last = op(s, "Sub", size, s->one), *turn = NULL, *inside = NULL;
    if (!strcmp(s->padding, "zeros"))
        return x;
    if (!strcmp(s->padding, "reflection"))
        x = reflect(s, x, size, slope ? &turn : NULL);
    x = hold(s, x, last, slope ? &inside : NULL);
    if (slope)
        *slope = turn ? op(s, "Mul", *slope, op(s, "Mul", turn, inside)) : op(s, "Mul", *slope, inside);
    return x;
}

/* Indices outside the input read its first element with weight 0. */
static void add_tap(const sampling *s, axis_taps *taps, tc_value *size, tc_value *at, tc_value *weight,
                    tc_value *slope) {
    tc_value *last = op(s, "Sub", size, s->one), *zero = number(s, 0);
    tc_value *inside = indicator(s, op(s, "And", op(s, "GreaterOrEqual", at, zero), op(s, "LessOrEqual", at, last)));
    taps->index[taps->n] = op(s, "Mul", hold(s, at, last, NULL), inside);
    taps->weight[taps->n] = weight ? op(s, "Mul", weight, inside) : inside;
    taps->slope[taps->n++] = slope ? op(s, "Mul", slope, inside) : NULL;
}

/* Keys' weight and its slope at a distance d >= 0, for the inner two taps or the outer two; a = -0.75. */
static tc_value *polynomial(const sampling *s, tc_value *d, const double c[4]) {
    tc_value *sum = number(s, c[0]);
    for (int i = 1; i < 4; i++)
        sum = op(s, "Add", op(s, "Mul", sum, d), number(s, c[i]));
    return sum;
}

static void cubic_taps(const sampling *s, axis_taps *taps, tc_value *x, tc_value *size, tc_value *unit) {
    static const double inner[] = {1.25, -2.25, 0, 1}, inner_slope[] = {0, 3.75, -4.5, 0},
                        outer[] = {-0.75, 3.75, -6, 3}, outer_slope[] = {0, -2.25, 7.5, -6};
    tc_value *below = TC_OP(s->g, "Floor", x);
    for (int k = -1; k <= 2; k++) {
        tc_value *at = op(s, "Add", below, number(s, k)), *away = op(s, "Sub", x, at);
        tc_value *d = k <= 0 ? away : TC_OP(s->g, "Neg", away), *side = k <= 0 ? unit : TC_OP(s->g, "Neg", unit);
        const bool near = k == 0 || k == 1;
        tc_value *weight = polynomial(s, d, near ? inner : outer),
                 *slope = op(s, "Mul", polynomial(s, d, near ? inner_slope : outer_slope), side);
        add_tap(s, taps, size, TC_OP(s->g, "Round", padded(s, at, size, NULL)), weight, slope);
    }
}

/* `g`: the coordinates of this axis, [batch, places]. */
static axis_taps taps_of(const sampling *s, tc_value *g, tc_value *size) {
    axis_taps taps = {.n = 0};
    tc_value *unit = by(s, s->align ? op(s, "Sub", size, s->one) : size, 0.5); /* a coordinate's, in elements */
    tc_value *x = op(s, "Mul", op(s, "Add", g, s->one), unit);
    x = s->align ? x : op(s, "Sub", x, s->half);
    if (!strcmp(s->mode, "cubic")) {
        cubic_taps(s, &taps, x, size, unit);
        return taps;
    }
    bool linear = strcmp(s->mode, "nearest") != 0;
    x = padded(s, x, size, linear ? &unit : NULL);
    if (!linear) {
        add_tap(s, &taps, size, TC_OP(s->g, "Round", x), NULL, NULL);
        return taps;
    }
    tc_value *below = TC_OP(s->g, "Floor", x), *part = op(s, "Sub", x, below);
    add_tap(s, &taps, size, below, op(s, "Sub", s->one, part), TC_OP(s->g, "Neg", unit));
    add_tap(s, &taps, size, op(s, "Add", below, s->one), part, unit);
    return taps;
}

/* --- taps of all axes combined ---------------------------------------------------------------- */

/* Each [batch, combined * places]. slopes: by axis; NULL: 0 everywhere. */
typedef struct reads {
    int64_t n;
    tc_value *index, *weight, *slopes[AXES];
} reads;

static int tap_of(const axis_taps *axes, int axis, int n_axes, int64_t term) {
    for (int d = n_axes - 1; d > axis; d--)
        term /= axes[d].n;
    return (int)(term % axes[axis].n);
}

/* The product of the axes' weights, with the slope instead of the weight along `sloped`. */
static tc_value *product(const sampling *s, const axis_taps *axes, int64_t term, int sloped) {
    tc_value *result = NULL;
    for (int d = 0; d < s->n_axes; d++) {
        int tap = tap_of(axes, d, s->n_axes, term);
        tc_value *factor = d == sloped ? axes[d].slope[tap] : axes[d].weight[tap];
        result = result ? op(s, "Mul", result, factor) : factor;
    }
    return result;
}

static tc_value *index_of(const sampling *s, const axis_taps *axes, tc_value *const *sizes, int64_t term) {
    tc_value *at = NULL;
    for (int d = 0; d < s->n_axes; d++) {
        tc_value *index = tc_build_cast(s->g, axes[d].index[tap_of(axes, d, s->n_axes, term)], TC_INT64);
        at = at ? op(s, "Add", op(s, "Mul", at, sizes[d]), index) : index;
    }
    return at;
}

static reads combine(const sampling *s, const axis_taps *axes, tc_value *const *sizes) {
    tc_value *parts[COMBINED];
    reads r = {.n = 1};
    for (int d = 0; d < s->n_axes; d++)
        r.n *= axes[d].n;
    for (int64_t i = 0; i < r.n; i++)
        parts[i] = index_of(s, axes, sizes, i);
    r.index = tc_build_concat(s->g, (size_t)r.n, parts, 1);
    for (int64_t i = 0; i < r.n; i++)
        parts[i] = product(s, axes, i, -1);
    r.weight = tc_build_concat(s->g, (size_t)r.n, parts, 1);
    for (int d = 0; d < s->n_axes && axes[d].slope[0]; d++) {
        for (int64_t i = 0; i < r.n; i++)
            parts[i] = product(s, axes, i, d);
        r.slopes[d] = tc_build_concat(s->g, (size_t)r.n, parts, 1);
    }
    return r;
}

/* --- the gradients ---------------------------------------------------------------------------- */

/* The sizes of the axes, as int64 and in the element type, of one element each. */
static void read_sizes(const sampling *s, tc_value *x, tc_value **out_ints, tc_value **out_numbers) {
    for (int d = 0; d < s->n_axes; d++) {
        int64_t known;
        out_ints[d] = tc_build_dims(s->g, x, 2 + d, 3 + d);
        out_numbers[d] = tc_build_static(x, 2 + d, &known) ? number(s, (double)known)
                                                           : tc_build_cast(s->g, out_ints[d], tc_value_dtype(s->one));
    }
}

/* The coordinates of the axis in column `column`, [batch, places]. */
static tc_value *coordinates(tc_build *g, tc_value *grid, int64_t column) {
    return TC_OP(g, "Squeeze",
                 TC_OP(g, "Slice", grid, tc_build_int(g, column), tc_build_int(g, column + 1), tc_build_int(g, 2)),
                 tc_build_int(g, 2));
}

/* [batch, channels, combined * places]: dY once for each read. */
static tc_value *repeated(tc_build *g, tc_value *dy, int64_t times) {
    const int64_t flat[] = {0, 0, -1}, repeats[] = {1, 1, times};
    return TC_OP(g, "Tile", TC_OP(g, "Reshape", dy, tc_build_ints(g, flat, 3)), tc_build_ints(g, repeats, 3));
}

static tc_value *along_axis_two(tc_build *g, tc_node *node) {
    tc_attr_set_int(node, "axis", 2);
    return tc_build_finish(g, node);
}

static tc_value *gradient_of_x(tc_build *g, const reads *r, tc_value *places, tc_value *dy, tc_value *flat_x) {
    static const int64_t channels[] = {1};
    tc_value *updates = TC_OP(g, "Mul", dy, tc_build_unsqueeze(g, r->weight, channels, 1));
    tc_node *scatter = TC_BEGIN(g, "ScatterElements", tc_build_zeros(g, tc_build_shape(g, flat_x), tc_value_dtype(dy)),
                                places, updates);
    tc_attr_set_string(scatter, "reduction", "add");
    return along_axis_two(g, scatter);
}

static tc_value *gradient_of_grid(const sampling *s, const reads *r, tc_value *places, tc_value *dy, tc_value *flat_x) {
    static const int64_t channels[] = {1}, last[] = {-1}, by_read[] = {1};
    tc_build *g = s->g;
    const int64_t rows[] = {0, r->n, -1};
    tc_value *read = along_axis_two(g, TC_BEGIN(g, "GatherElements", flat_x, places)), *columns[AXES];
    tc_value *share = tc_build_reduce(g, "ReduceSum", TC_OP(g, "Mul", read, dy), channels, 1, false);
    for (int d = 0; d < s->n_axes; d++) {
        tc_value *terms = TC_OP(g, "Reshape", TC_OP(g, "Mul", share, r->slopes[d]), tc_build_ints(g, rows, 3));
        columns[s->n_axes - 1 - d] =
            tc_build_unsqueeze(g, tc_build_reduce(g, "ReduceSum", terms, by_read, 1, false), last, 1);
    }
    return tc_build_concat(g, (size_t)s->n_axes, columns, -1);
}

void tc_gradient_grid_sample(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *grid = tc_input(g->of->node, 1), *sizes[AXES], *numbers[AXES];
    const int rank = tc_grad_rank(g, x);
    sampling s = {.g = g,
                  .mode = tc_attr_string(g->of->node, "mode", "linear"),
                  .padding = tc_attr_string(g->of->node, "padding_mode", "zeros"),
                  .align = tc_attr_int(g->of->node, "align_corners", 0) != 0,
                  .n_axes = rank - 2};
    if (g->status == TC_OK && (rank < 3 || rank > 5 || (rank == 5 && !strcmp(s.mode, "cubic"))))
        tc_grad_refuse(g, "its operand has rank %d, expected 3 to 5, or 4 at most for cubic", rank);
    if (g->status != TC_OK)
        return;
    const int64_t flat[] = {0, 0, -1}, columns[] = {0, -1, s.n_axes}, channels[] = {1}, one = 1;
    tc_value *wide = tc_build_wide(g, TC_OP(g, "Reshape", grid, tc_build_ints(g, columns, 3)));
    s.one = tc_build_like(g, wide, 1);
    s.half = number(&s, 0.5);
    read_sizes(&s, x, sizes, numbers);
    axis_taps axes[AXES];
    for (int d = 0; d < s.n_axes; d++)
        axes[d] = taps_of(&s, coordinates(g, wide, s.n_axes - 1 - d), numbers[d]);
    const reads r = combine(&s, axes, sizes);
    tc_value *flat_x = tc_build_wide(g, TC_OP(g, "Reshape", x, tc_build_ints(g, flat, 3)));
    tc_value *dy = repeated(g, tc_build_wide(g, g->of->douts[0]), r.n);
    tc_value *ones[] = {tc_build_ints(g, &one, 1), tc_build_dims(g, x, 1, 2), tc_build_ints(g, &one, 1)};
    tc_value *places = TC_OP(g, "Expand", tc_build_unsqueeze(g, r.index, channels, 1), tc_build_concat(g, 3, ones, 0));
    if (g->of->needed[0])
        g->of->dins[0] =
            tc_build_cast(g, tc_build_reshape_like(g, gradient_of_x(g, &r, places, dy, flat_x), x), tc_value_dtype(x));
    if (g->of->needed[1] && r.slopes[0])
        g->of->dins[1] = tc_build_cast(g, tc_build_reshape_like(g, gradient_of_grid(&s, &r, places, dy, flat_x), grid),
                                       tc_value_dtype(grid));
}
