/* launch_resize.c: Resize and its gradient to the kernel of kernels/resize: for each position of an axis, the elements
 * that it reads are worked out here, for these shapes, into tables. And GridSample to its kernel. */
#include "compiler/contents/contents.h"
#include "kernels/common/types.h"
#include "launch_util.h"
#include <string.h>

/* A node of either op. x: the operand of Resize, and the gradient's result; y the other. */
typedef struct resized {
    rt_launcher *launcher;
    const tc_node *node;
    const rt_arg *x, *y;
    bool turned;  /* the gradient */
    uint32_t roi; /* operand; scales and sizes follow */
    tk_resize_rule rule;
    tk_resize_span spans[TC_MAX_RANK]; /* of each axis of x */
    bool stays[TC_MAX_RANK];           /* axes that are not listed */
} resized;

/* --- attributes and operands ------------------------------------------------------------------ */

static const char *const modes[] = {"nearest", "linear", "cubic"}; /* by tk_resize_mode */

/* The place of an attribute's word among these. */
static tc_status read_word(rt_launcher *launcher, const tc_node *node, const char *name, const char *otherwise,
                           const char *const *words, int n, int *out_place) {
    const char *word = tc_attr_string(node, name, otherwise);
    for (*out_place = 0; *out_place < n; ++*out_place)
        if (!strcmp(words[*out_place], word))
            return TC_OK;
    return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for its %s, %s", name,
                    tc_quote(launcher->ctx, word));
}

static tc_status read_rule(resized *s) {
    static const char *const places[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                         "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    int mode, place, rounding;
    TC_TRY(read_word(s->launcher, s->node, "mode", "nearest", modes, TC_COUNT(modes), &mode));
    TC_TRY(read_word(s->launcher, s->node, "coordinate_transformation_mode", "half_pixel", places, TC_COUNT(places),
                     &place));
    TC_TRY(read_word(s->launcher, s->node, "nearest_mode", "round_prefer_floor", roundings, TC_COUNT(roundings),
                     &rounding));
    s->rule = (tk_resize_rule){.mode = (tk_resize_mode)mode,
                               .places = (tk_resize_places)place,
                               .rounding = (tk_resize_rounding)rounding,
                               .cubic_a = (double)tc_attr_float(s->node, "cubic_coeff_a", -0.75f),
                               .antialias = tc_attr_int(s->node, "antialias", 0) != 0,
                               .exclude_outside = tc_attr_int(s->node, "exclude_outside", 0) != 0};
    return TC_OK;
}

/* Floats of an operand, `count` of them, or none where it is absent or empty. */
static tc_status known_floats(const resized *s, uint32_t operand, size_t count, const tc_scalar **out_items) {
    tc_value *value = tc_input(s->node, operand);
    const tc_contents *c = value ? tc_value_contents(s->launcher->model, value) : NULL;
    *out_items = NULL;
    if (!value || (c && c->count == 0))
        return TC_OK;
    if (!c)
        return tc_error(s->launcher->ctx, TC_UNSUPPORTED, s->node,
                        "the elements of operand %u ('%s') must be known before the run", operand,
                        tc_quote(s->launcher->ctx, value->name));
    TC_TRY(rt_expect(s->launcher, s->node, tc_dtype_is_float(c->dtype) && c->count == count));
    *out_items = c->items;
    return TC_OK;
}

/* The factor of each axis: as given, or computed from its size; with keep_aspect_ratio_policy one for all. */
static tc_status read_factors(resized *s, const int *axes, size_t n) {
    const char *policy = tc_attr_string(s->node, "keep_aspect_ratio_policy", "stretch");
    const int64_t *sizes = NULL;
    int64_t n_sizes = 0;
    const tc_scalar *scales = NULL;
    if (tc_input(s->node, s->roi + 2) && strcmp(policy, "stretch") != 0)
        TC_TRY(rt_known_ints(s->launcher, s->node, s->roi + 2, &sizes, &n_sizes));
    if (n_sizes == 0)
        TC_TRY(known_floats(s, s->roi + 1, n, &scales));
    TC_TRY(rt_expect(s->launcher, s->node, n_sizes == 0 || (size_t)n_sizes == n));
    double common = 0;
    for (size_t i = 0; i < n; i++) {
        tk_resize_span *span = &s->spans[axes[i]];
        span->scale = scales ? scales[i].f : (double)(n_sizes ? sizes[i] : span->out) / (double)span->inp;
        bool further = strcmp(policy, "not_larger") == 0 ? span->scale < common : span->scale > common;
        common = i == 0 || further ? span->scale : common;
    }
    for (size_t i = 0; n_sizes && i < n; i++)
        s->spans[axes[i]].scale = common;
    for (size_t i = 0; i < n; i++)
        if (!(s->spans[axes[i]].scale > 0) && s->spans[axes[i]].out > 0)
            return tc_error(s->launcher->ctx, TC_BAD_INPUT, s->node, "a scale is not above 0");
    return TC_OK;
}

static tc_status read_spans(resized *s) {
    size_t n = 0;
    int axes[TC_MAX_RANK];
    const int64_t *given = tc_attr_ints(s->node, "axes", &n);
    const tc_scalar *roi;
    n = n ? n : (size_t)s->x->rank;
    TC_TRY(rt_expect(s->launcher, s->node, n <= TC_MAX_RANK));
    for (int i = 0; i < s->x->rank; i++) {
        s->spans[i] = (tk_resize_span){s->x->dims[i], s->y->dims[i], 1, 0, 1};
        s->stays[i] = true;
    }
    for (size_t i = 0; i < n; i++) {
        TC_TRY(rt_axis(s->launcher, s->node, given ? given[i] : (int64_t)i, s->x->rank, false, &axes[i]));
        s->stays[axes[i]] = false;
    }
    for (int i = 0; i < s->x->rank; i++)
        TC_TRY(rt_expect(s->launcher, s->node,
                         s->stays[i] ? s->spans[i].inp == s->spans[i].out : s->spans[i].inp > 0 || s->y->count == 0));
    TC_TRY(read_factors(s, axes, n));
    if (s->rule.places != TK_TF_CROP_AND_RESIZE)
        return TC_OK;
    TC_TRY(known_floats(s, s->roi, 2 * n, &roi));
    for (size_t i = 0; roi && i < n; i++) {
        s->spans[axes[i]].begin = roi[i].f;
        s->spans[axes[i]].end = roi[n + i].f;
    }
    return TC_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* An axis with its table; the host keeps the weights in double precision. */
typedef struct axis_table {
    tk_resize_axis axis;
    double *weights;
    int64_t n_weights;
    bool moves; /* it is not the identity */
} axis_table;

static axis_table identity_axis(rt_launcher *launcher, int64_t n) {
    tk_tap *taps = TC_NEW_ARRAY(launcher->arena, tk_tap, (size_t)n + 1);
    axis_table table = {{n, n, taps, NULL}, TC_NEW_ARRAY(launcher->arena, double, (size_t)n + 1), n, false};
    for (int64_t i = 0; i < n; i++) {
        taps[i] = (tk_tap){(int32_t)i, 1, (int32_t)i};
        table.weights[i] = 1;
    }
    return table;
}

static bool is_identity(const axis_table *table) {
    bool same = table->axis.inp == table->axis.out;
    for (int64_t i = 0; same && i < table->axis.out; i++) {
        const tk_tap tap = table->axis.taps[i];
        same = tap.count == 1 && tap.first == i && table->weights[tap.weights] == 1;
    }
    return same;
}

static tc_status make_table(const resized *s, int axis, axis_table *out_table) {
    const tk_resize_span *span = &s->spans[axis];
    tc_arena *arena = s->launcher->arena;
    if (span->inp > INT32_MAX || span->out > INT32_MAX)
        return tc_error(s->launcher->ctx, TC_LIMIT, s->node, "axis %d is longer than %d", axis, INT32_MAX);
    if (s->stays[axis]) {
        *out_table = identity_axis(s->launcher, span->inp);
        return TC_OK;
    }
    tk_tap *taps = TC_NEW_ARRAY(arena, tk_tap, (size_t)span->out + 1);
    int64_t n = tk_resize_taps(taps, NULL, &s->rule, span);
    if (n > INT32_MAX)
        return tc_error(s->launcher->ctx, TC_LIMIT, s->node, "axis %d has more than %d weights", axis, INT32_MAX);
    double *weights = TC_NEW_ARRAY(arena, double, (size_t)n + 1);
    n = tk_resize_taps(taps, weights, &s->rule, span);
    *out_table = (axis_table){{span->inp, span->out, taps, NULL}, weights, n, true};
    out_table->moves = !is_identity(out_table);
    if (!s->turned)
        return TC_OK;
    tk_tap *turned = TC_NEW_ARRAY(arena, tk_tap, (size_t)span->inp + 1);
    n = tk_resize_turn(turned, NULL, span->inp, taps, weights, span->out);
    if (n > INT32_MAX)
        return tc_error(s->launcher->ctx, TC_LIMIT, s->node, "axis %d has more than %d weights", axis, INT32_MAX);
    out_table->weights = TC_NEW_ARRAY(arena, double, (size_t)n + 1);
    out_table->n_weights = tk_resize_turn(turned, out_table->weights, span->inp, taps, weights, span->out);
    out_table->axis = (tk_resize_axis){span->out, span->inp, turned, NULL};
    return TC_OK;
}

/* The table goes to the device; weights in the type of the computation, none where elements are only picked. */
static void add_axis(rt_launcher *launcher, tk_resize *p, const axis_table *table, tk_dtype dtype) {
    tk_resize_axis *axis = &p->axes[p->n_axes++];
    *axis = table->axis;
    rt_add_table(launcher, axis->taps, (size_t)axis->out * sizeof *axis->taps, &axis->taps);
    if (p->picks)
        return;
    const tk_dtype wide = tk_wide(dtype);
    void *weights = tc_arena_alloc(launcher->arena, (size_t)table->n_weights + 1, tk_size(wide));
    for (int64_t i = 0; i < table->n_weights; i++)
        tk_put(weights, wide, i, table->weights[i]);
    rt_add_table(launcher, weights, (size_t)table->n_weights * tk_size(wide), &axis->weights);
}

/* Axes from the first that moves to the last; those around them are seen as one. */
static tc_status make_tables(const resized *s, tk_resize *p, tk_dtype dtype) {
    axis_table tables[TC_MAX_RANK];
    int rank = s->x->rank, first = rank - 1, last = -1;
    for (int i = 0; i < rank; i++)
        TC_TRY(make_table(s, i, &tables[i]));
    for (int i = rank - 1; i >= 0; i--)
        if (tables[i].moves) {
            first = i;
            last = last < 0 ? i : last;
        }
    last = last < 0 ? rank - 1 : last;
    if (last - first >= TK_RESIZE_AXES)
        return tc_error(s->launcher->ctx, TC_UNSUPPORTED, s->node, "there is no kernel for so many axes");
    for (int i = 0; i < rank; i++)
        if (i < first)
            p->outer *= s->x->dims[i];
        else if (i > last)
            p->inner *= s->x->dims[i];
        else
            add_axis(s->launcher, p, &tables[i], dtype);
    if (rank == 0) {
        const axis_table one = identity_axis(s->launcher, 1);
        add_axis(s->launcher, p, &one, dtype);
    }
    return TC_OK;
}

/* --- the launch ------------------------------------------------------------------------------- */

static void run_resize(tk_queue *q, const rt_launch *launch) {
    const tk_resize *p = launch->params;
    if (launch->out[0].count > 0)
        launch->kernels->resize_run(q, launch->out[0].data, launch->in[0].data, p, launch->in[0].dtype,
                                    launch->workspace);
}

static uint64_t outside_element(const tc_node *node, tk_dtype dtype) {
    const double value = (double)tc_attr_float(node, "extrapolation_value", 0);
    uint64_t element = 0;
    if (tk_is_float(dtype))
        tk_put(&element, dtype, 0, value);
    else
        element = (uint64_t)(int64_t)value;
    return element;
}

static tc_status launch_resize(resized *s, rt_launch *launch) {
    tk_resize *p = RT_PARAMS(s->launcher, tk_resize);
    const tk_dtype dtype = launch->in[0].dtype;
    TC_TRY(rt_expect(s->launcher, s->node, s->x->rank == s->y->rank && s->x->rank <= TC_MAX_RANK));
    TC_TRY(read_rule(s));
    *p = (tk_resize){.outer = 1, .inner = 1};
    p->picks = s->rule.mode == TK_RESIZE_NEAREST && !s->turned;
    p->outside = s->turned ? 0 : outside_element(s->node, dtype);
    if (!p->picks && !tk_is_float(dtype))
        return rt_no_kernel(s->launcher, s->node, launch);
    TC_TRY(read_spans(s));
    if (launch->out[0].count > 0)
        TC_TRY(make_tables(s, p, dtype));
    launch->params = p;
    if (launch->out[0].count > 0)
        launch->workspace_bytes = s->launcher->kernels->resize_workspace(p, dtype, s->launcher->slots);
    launch->run = run_resize;
    return TC_OK;
}

tc_status rt_launch_resize(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    resized s = {.launcher = launcher, .node = node, .x = &launch->in[0], .y = &launch->out[0], .roi = 1};
    return launch_resize(&s, launch);
}

/* (dY, shape, roi, scales, sizes) */
tc_status rt_launch_resize_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    resized s = {
        .launcher = launcher, .node = node, .x = &launch->out[0], .y = &launch->in[0], .turned = true, .roi = 2};
    return launch_resize(&s, launch);
}

/* --- GridSample ------------------------------------------------------------------------------- */

static void run_grid_sample(tk_queue *q, const rt_launch *launch) {
    launch->kernels->grid_sample_run(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, launch->params,
                                     launch->in[0].dtype);
}

tc_status rt_launch_grid_sample(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const rt_arg *x = &launch->in[0], *grid = &launch->in[1], *y = &launch->out[0];
    tk_grid_sample *p = RT_PARAMS(launcher, tk_grid_sample);
    int mode, padding;
    TC_TRY(read_word(launcher, node, "mode", "linear", modes, TC_COUNT(modes), &mode));
    TC_TRY(read_word(launcher, node, "padding_mode", "zeros", paddings, TC_COUNT(paddings), &padding));
    if (!tk_is_float(x->dtype) || grid->dtype != x->dtype)
        return rt_no_kernel(launcher, node, launch);
    if (x->rank < 3 || x->rank - 2 > TK_GRID_AXES)
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for %d spatial dims", x->rank - 2);
    *p = (tk_grid_sample){.batch = x->dims[0],
                          .channels = x->dims[1],
                          .places = rt_product(y, 2, y->rank),
                          .n_axes = x->rank - 2,
                          .mode = (tk_resize_mode)mode,
                          .padding = (tk_grid_padding)padding,
                          .align_corners = tc_attr_int(node, "align_corners", 0) != 0};
    for (int d = 0; d < p->n_axes; d++)
        p->dims[d] = x->dims[2 + d];
    TC_TRY(rt_expect(launcher, node,
                     y->rank == x->rank && y->count == p->batch * p->channels * p->places &&
                         grid->count == p->batch * p->places * p->n_axes && (x->count > 0 || y->count == 0)));
    launch->params = p;
    launch->run = run_grid_sample;
    return TC_OK;
}
