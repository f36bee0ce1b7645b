/* launch_attention.c: DotProductAttention and its gradient to the kernel of kernels/attention. To broadcast leading
 * dims of operands to those of the result, each item has its own beginning; bias and mask are broadcast by strides. */
#include "kernels/attention/attention.h"
#include "kernels/common/types.h"
#include "runtime/fuse/fuse.h"
#include "launch_draw.h"
#include "launch_util.h"
#include <math.h>

typedef struct attention_params {
    tk_attention a;
    tk_seed draw;        /* `pair` is an operand */
    size_t kernel_bytes; /* of the workspace: a packed mask's bytes follow */
} attention_params;

static int64_t scores(const tk_attention *a) { return a->items * a->s * a->t; }

/* The kernel's workspace, followed by room for the bytes of a packed mask. */
static void set_workspace(rt_launch *launch, attention_params *p, size_t kernel_bytes, const rt_arg *mask) {
    p->kernel_bytes = (kernel_bytes + 63) / 64 * 64;
    const size_t bytes = rt_unpacked_bytes(mask, scores(&p->a));
    launch->workspace_bytes = bytes ? p->kernel_bytes + bytes : kernel_bytes;
}

static uint8_t *unpacked(const rt_launch *launch) {
    const attention_params *p = launch->params;
    return (uint8_t *)launch->workspace + p->kernel_bytes;
}

typedef struct placing {
    int64_t *at, size;
} placing;

static void place(void *ctx, int64_t at, int64_t n, const int64_t *offset, const int64_t *step) {
    const placing *p = ctx;
    for (int64_t i = 0; i < n; i++)
        p->at[at + i] = (offset[0] + i * step[0]) * p->size;
}

/* The size of an operand's axis, counted from the last; 1 where it has fewer. */
static int64_t size_at(const rt_arg *arg, int from_last) {
    return arg->rank >= from_last ? arg->dims[arg->rank - from_last] : 1;
}

/* Whether a plan has interleaved heads in the operand or result of this bit (fuse_heads.h). */
static bool is_interleaved(const tc_node *node, int64_t bit) {
    return (tc_attr_int(node, "interleaved", 0) & bit) != 0;
}

/* An operand or result with the dims that the op says. */
static rt_arg seen(rt_launcher *launcher, const tc_node *node, const rt_arg *arg, int64_t bit) {
    rt_arg x = *arg;
    if (is_interleaved(node, bit)) {
        const bool turned = bit == RT_INTERLEAVED_KT || bit == RT_INTERLEAVED_DKT;
        int64_t *dims = TC_NEW_ARRAY(launcher->arena, int64_t, 4);
        for (int i = 0; i < 4; i++)
            dims[i] = arg->dims[turned ? (const int[]){0, 2, 3, 1}[i] : (const int[]){0, 2, 1, 3}[i]];
        x.dims = dims;
    }
    return x;
}

/* Where each item's matrix begins in `arg`, whose leading dims broadcast to those of `whole`. With interleaved heads
 * `width` is the elements of a head, else 0. */
static tc_status prepare_items(rt_launcher *launcher, const tc_node *node, const rt_arg *whole, const rt_arg *arg,
                               int64_t width, tk_places *places) {
    tk_bcast bc;
    tk_shape lead = {whole->rank - 2, whole->dims}, of_arg = {arg->rank > 2 ? arg->rank - 2 : 0, arg->dims};
    if (!tk_bcast_init(&bc, lead, &of_arg, 1))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                        "the operands' leading dims don't broadcast to the result's");
    placing p = {TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)bc.count + 1), size_at(arg, 1) * size_at(arg, 2)};
    tk_bcast_walk(&bc, 0, bc.count, place, &p);
    for (int64_t i = 0; i < bc.count && width > 0 && p.size > 0; i++) {
        const int64_t matrix = p.at[i] / p.size, heads = arg->dims[1];
        p.at[i] = matrix / heads * heads * p.size + matrix % heads * width;
    }
    rt_places(launcher, p.at, bc.count, places);
    return TC_OK;
}

/* Of bias or mask, `arg` or NULL: [s or 1, t or 1] with leading dims. */
static tc_status prepare_repeated(rt_launcher *launcher, const tc_node *node, const rt_arg *whole, const rt_arg *arg,
                                  const tk_attention *a, tk_places *places, int64_t *out_row, int64_t *out_column) {
    if (!arg)
        return TC_OK;
    int64_t s = size_at(arg, 2), t = size_at(arg, 1);
    TC_TRY(rt_expect(launcher, node, (s == 1 || s == a->s) && (t == 1 || t == a->t)));
    *out_row = s == 1 ? 0 : t;
    *out_column = t == 1 ? 0 : 1;
    return prepare_items(launcher, node, whole, arg, 0, places);
}

/* The strides of an operand with so many elements in a head. */
static tc_status prepare_lines(rt_launcher *launcher, const tc_node *node, const rt_arg *whole, const rt_arg *arg,
                               int64_t bit, int64_t width, tk_lines *lines) {
    const bool interleaved = is_interleaved(node, bit);
    const rt_arg x = seen(launcher, node, arg, bit);
    if (interleaved)
        lines->row = x.dims[1] * width;
    return prepare_items(launcher, node, whole, &x, interleaved ? width : 0, &lines->at);
}

/* The same for a dense tensor (tk_attention_dense()) without interleaved heads; absent is fine. */
static tc_status prepare_dense(rt_launcher *launcher, const tc_node *node, const rt_arg *whole, const rt_arg *arg,
                               int64_t bit, int64_t width, tk_lines *lines) {
    return arg && is_interleaved(node, bit) ? prepare_lines(launcher, node, whole, arg, bit, width, lines) : TC_OK;
}

/* Sizes and places of Q, K^T and V, operands `first` and the next two, for the items of `whole`, which is Y or its
 * gradient. */
static tc_status prepare_matrices(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t first,
                                  const rt_arg *whole, tk_attention *a) {
    const rt_arg *in = &launch->in[first], q_seen = seen(launcher, node, &in[0], RT_INTERLEAVED_Q),
                 kt_seen = seen(launcher, node, &in[1], RT_INTERLEAVED_KT),
                 v_seen = seen(launcher, node, &in[2], RT_INTERLEAVED_V);
    const rt_arg *q = &q_seen, *kt = &kt_seen, *v = &v_seen;
    if (kt->dtype != q->dtype || v->dtype != q->dtype)
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_expect(launcher, node, q->rank >= 2 && kt->rank >= 2 && v->rank >= 2 && whole->rank >= 2));
    a->s = size_at(q, 2);
    a->d = size_at(q, 1);
    a->t = size_at(kt, 1);
    a->e = size_at(v, 1);
    a->items = rt_product(whole, 0, whole->rank - 2);
    a->dtype = q->dtype;
    a->scale = (double)tc_attr_float(node, "scale", 1);
    a->is_signed = tc_attr_int(node, "signed", 0) != 0;
    a->bias_first = tc_attr_int(node, "bias_first", 0) != 0;
    TC_TRY(rt_expect(launcher, node,
                     size_at(kt, 2) == a->d && size_at(v, 2) == a->t && size_at(whole, 2) == a->s &&
                         size_at(whole, 1) == a->e));
    tk_attention_dense(a);
    a->by_keys = is_interleaved(node, RT_INTERLEAVED_KT);
    TC_TRY(prepare_lines(launcher, node, whole, &in[0], RT_INTERLEAVED_Q, a->d, &a->q));
    TC_TRY(prepare_lines(launcher, node, whole, &in[1], RT_INTERLEAVED_KT, a->d, &a->kt));
    return prepare_lines(launcher, node, whole, &in[2], RT_INTERLEAVED_V, a->e, &a->v);
}

static tc_status too_few_scores(rt_launcher *launcher, const tc_node *node) {
    return tc_error(launcher->ctx, TC_UNSUPPORTED, node,
                    "there is no kernel for a V with more leading dims than the scores have");
}

/* An operand or result that has one element of each score; absent is fine. */
static tc_status expect_scores(rt_launcher *launcher, const tc_node *node, const rt_arg *arg, tk_dtype dtype,
                               const tk_attention *a) {
    if (arg && arg->count != a->items * a->s * a->t)
        return too_few_scores(launcher, node);
    return rt_expect(launcher, node, !arg || arg->dtype == dtype);
}

/* The keep mask, a byte or a bit an element; absent is fine. */
static tc_status expect_keep(rt_launcher *launcher, const tc_node *node, const rt_arg *keep, const tk_attention *a) {
    if (rt_is_packed(keep))
        return rt_expect_mask(launcher, node, keep, scores(a));
    return expect_scores(launcher, node, keep, TK_BOOL, a);
}

/* (Q, K^T, V, Bias?, Mask?, Ratio?, Seed?) -> Y, P, Dropped, Keep, Statistics */
static void run_attention(tk_queue *q, const rt_launch *launch) {
    const attention_params *p = launch->params;
    const rt_arg *in = launch->in, *ratio = rt_in(launch, 5), *seed = rt_in(launch, 6), *keep = rt_out(launch, 3);
    tk_attention_results out = {launch->out[0].data, rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2)),
                                rt_is_packed(keep) ? unpacked(launch) : rt_data(keep), rt_data(rt_out(launch, 4))};
    tk_attention_operands operands = {in[0].data, in[1].data, in[2].data, rt_data(rt_in(launch, 3)),
                                      rt_data(rt_in(launch, 4))};
    launch->kernels->attention_run(q, out, operands, &p->a, rt_ratio(ratio, 0), rt_seed(seed, p->draw),
                                   launch->workspace);
    if (rt_is_packed(keep))
        launch->kernels->pack_bits(q, keep->data, out.keep, scores(&p->a));
}

/* Operands Q, K^T, V, Bias?, Mask?, Ratio? and Seed? from `first` on, for the items of `whole`, and the attributes. */
static tc_status prepare_operands(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t first,
                                  const rt_arg *whole, attention_params *p) {
    tk_attention *a = &p->a;
    const rt_arg *bias = rt_in(launch, first + 3), *mask = rt_in(launch, first + 4), *ratio = rt_in(launch, first + 5);
    TC_TRY(prepare_matrices(launcher, node, launch, first, whole, a));
    TC_TRY(rt_expect_draw(launcher, node, launch, first + 5, first + 6));
    if ((bias && bias->dtype != a->dtype) || (mask && mask->dtype != TK_BOOL))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_expect(launcher, node, !ratio == !rt_in(launch, first + 6)));
    TC_TRY(prepare_repeated(launcher, node, whole, bias, a, &a->bias_at, &a->bias_row, &a->bias_column));
    TC_TRY(prepare_repeated(launcher, node, whole, mask, a, &a->mask_at, &a->mask_row, &a->mask_column));
    a->fill = (double)tc_attr_float(node, "fill", -INFINITY);
    a->guard = tc_attr_int(node, "guard", 0) != 0;
    a->softcap = (double)tc_attr_float(node, "softcap", 0);
    return rt_in(launch, first + 6) ? rt_dropout_draw(launcher, node, 0, &p->draw) : TC_OK;
}

/* A row's two numbers, operand or result; absent is fine. */
static tc_status expect_statistics(rt_launcher *launcher, const tc_node *node, const rt_arg *arg,
                                   const tk_attention *a) {
    if (arg && arg->count != a->items * a->s * 2)
        return too_few_scores(launcher, node);
    return rt_expect(launcher, node, !arg || arg->dtype == tk_wide(a->dtype));
}

tc_status rt_launch_attention(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    attention_params *p = RT_PARAMS(launcher, attention_params);
    tk_attention *a = &p->a;
    const rt_arg y = seen(launcher, node, &launch->out[0], RT_INTERLEAVED_Y);
    TC_TRY(prepare_operands(launcher, node, launch, 0, &y, p));
    TC_TRY(prepare_dense(launcher, node, &y, &launch->out[0], RT_INTERLEAVED_Y, a->e, &a->y));
    TC_TRY(rt_expect(launcher, node, rt_in(launch, 6) || (!rt_out(launch, 2) && !rt_out(launch, 3))));
    for (uint32_t i = 1; i < 3; i++)
        TC_TRY(expect_scores(launcher, node, rt_out(launch, i), a->dtype, a));
    TC_TRY(expect_keep(launcher, node, rt_out(launch, 3), a));
    TC_TRY(expect_statistics(launcher, node, rt_out(launch, 4), a));
    set_workspace(launch, p, launcher->kernels->attention_workspace(a, launcher->slots), rt_out(launch, 3));
    launch->params = p;
    launch->run = run_attention;
    return TC_OK;
}

/* dQ, dK^T, dV for each item, and dS for `maps` maps of scores, as far as they are there. */
static tc_status expect_gradients(rt_launcher *launcher, const tc_node *node, const rt_launch *launch,
                                  const tk_attention *a, int64_t maps) {
    const int64_t elements[] = {a->items * a->s * a->d, a->items * a->d * a->t, a->items * a->t * a->e,
                                maps * a->s * a->t};
    for (uint32_t i = 0; i < TC_COUNT(elements); i++) {
        const rt_arg *out = rt_out(launch, i);
        TC_TRY(rt_expect(launcher, node, !out || (out->count == elements[i] && out->dtype == a->dtype)));
    }
    return TC_OK;
}

/* (dY, Q, K^T, V, P, Dropped?, Keep?, Ratio?, Mask?) -> dQ, dK^T, dV, dS */
static void run_attention_grad(tk_queue *q, const rt_launch *launch) {
    const attention_params *p = launch->params;
    const rt_arg *in = launch->in, *ratio = rt_in(launch, 7), *keep = rt_in(launch, 6);
    tk_attention_gradients out = {launch->out[0].data, rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2)),
                                  rt_data(rt_out(launch, 3))};
    tk_attention_saved saved = {in[0].data,
                                in[1].data,
                                in[2].data,
                                in[3].data,
                                in[4].data,
                                rt_data(rt_in(launch, 5)),
                                rt_is_packed(keep) ? unpacked(launch) : rt_data(keep),
                                ratio != NULL,
                                rt_data(rt_in(launch, 8))};
    if (rt_is_packed(keep))
        launch->kernels->unpack_bits(q, unpacked(launch), keep->data, scores(&p->a));
    launch->kernels->attention_grad(q, out, saved, &p->a, rt_ratio(ratio, 0), launch->workspace);
}

tc_status rt_launch_attention_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    attention_params *p = RT_PARAMS(launcher, attention_params);
    tk_attention *a = &p->a;
    const rt_arg *dropped = rt_in(launch, 5), *keep = rt_in(launch, 6), *mask = rt_in(launch, 8);
    TC_TRY(prepare_matrices(launcher, node, launch, 1, &launch->in[0], a));
    TC_TRY(rt_expect_draw(launcher, node, launch, 7, UINT32_MAX));
    TC_TRY(rt_expect(launcher, node, launch->in[0].dtype == a->dtype && rt_in(launch, 4)));
    TC_TRY(expect_scores(launcher, node, rt_in(launch, 4), a->dtype, a));
    TC_TRY(expect_scores(launcher, node, dropped, a->dtype, a));
    TC_TRY(expect_keep(launcher, node, keep, a));
    TC_TRY(rt_expect(launcher, node, !mask || mask->dtype == TK_BOOL));
    TC_TRY(prepare_repeated(launcher, node, &launch->in[0], mask, a, &a->mask_at, &a->mask_row, &a->mask_column));
    if (rt_in(launch, 7) && !a->is_signed && !keep)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "has a ratio, but neither what was kept nor signed P");
    TC_TRY(expect_gradients(launcher, node, launch, a, a->items));
    set_workspace(launch, p, launcher->kernels->attention_grad_workspace(a, launcher->slots), keep);
    launch->params = p;
    launch->run = run_attention_grad;
    return TC_OK;
}

/* Items that differ along `axes` alone are members of one group, whose ds are summed. */
static tc_status prepare_groups(rt_launcher *launcher, const tc_node *node, const rt_arg *whole, const int64_t *axes,
                                size_t n_axes, int64_t items, tk_attention_groups *g) {
    int64_t *groups = TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)items + 1),
            *members = TC_NEW_ARRAY(launcher->arena, int64_t, (size_t)items + 1);
    bool is_summed[TK_MAX_RANK] = {false};
    for (size_t i = 0; i < n_axes; i++) {
        TC_TRY(rt_expect(launcher, node, axes[i] >= 0 && axes[i] < whole->rank - 2));
        is_summed[axes[i]] = true;
    }
    *g = (tk_attention_groups){.groups = 1, .members = 1, .sums = true};
    for (int axis = 0; axis < whole->rank - 2; axis++)
        *(is_summed[axis] ? &g->members : &g->groups) *= whole->dims[axis];
    for (int64_t item = 0; item < items; item++) {
        int64_t rest = item, at[2] = {0, 0}, size[2] = {1, 1}; /* in its group; of groups */
        for (int axis = whole->rank - 3; axis >= 0; axis--) {
            at[!is_summed[axis]] += rest % whole->dims[axis] * size[!is_summed[axis]];
            size[!is_summed[axis]] *= whole->dims[axis];
            rest /= whole->dims[axis];
        }
        if (at[0] == 0)
            groups[at[1]] = item;
        if (at[1] == 0)
            members[at[0]] = item;
    }
    rt_places(launcher, groups, items ? g->groups : 0, &g->group_at);
    rt_places(launcher, members, items ? g->members : 0, &g->member_at);
    return TC_OK;
}

typedef struct tiled_params {
    attention_params attention;
    tk_attention_groups groups;
} tiled_params;

/* (dY, Q, K^T, V, Bias?, Mask?, Ratio?, Seed?, Statistics?, Y?) -> dQ, dK^T, dV, dS */
static void run_attention_tiled_grad(tk_queue *q, const rt_launch *launch) {
    const tiled_params *p = launch->params;
    const rt_arg *in = launch->in;
    tk_attention_gradients out = {rt_data(rt_out(launch, 0)), rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2)),
                                  rt_data(rt_out(launch, 3))};
    tk_attention_operands operands = {in[1].data, in[2].data, in[3].data, rt_data(rt_in(launch, 4)),
                                      rt_data(rt_in(launch, 5))};
    tk_attention_after after = {in[0].data, rt_data(rt_in(launch, 9)), rt_data(rt_in(launch, 8))};
    launch->kernels->attention_tiled_grad(q, out, after, operands, &p->attention.a, &p->groups,
                                          rt_ratio(rt_in(launch, 6), 0), rt_seed(rt_in(launch, 7), p->attention.draw),
                                          launch->workspace);
}

/* TC_UNSUPPORTED where V has leading dims that the scores lack: forward, one map serves several items then. */
static tc_status expect_own_scores(rt_launcher *launcher, const tc_node *node, const rt_launch *launch) {
    const rt_arg whole = seen(launcher, node, &launch->in[0], RT_INTERLEAVED_DOUT),
                 q = seen(launcher, node, &launch->in[1], RT_INTERLEAVED_Q),
                 kt = seen(launcher, node, &launch->in[2], RT_INTERLEAVED_KT);
    bool same = true;
    for (int axis = 3; axis <= whole.rank; axis++)
        same = same && (size_at(&q, axis) == size_at(&whole, axis) || size_at(&kt, axis) == size_at(&whole, axis));
    return same ? TC_OK : too_few_scores(launcher, node);
}

tc_status rt_launch_attention_tiled_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tiled_params *p = RT_PARAMS(launcher, tiled_params);
    tk_attention *a = &p->attention.a;
    size_t n_axes = 0;
    const int64_t *axes = tc_attr_ints(node, "sum_axes", &n_axes);
    const rt_arg dout = seen(launcher, node, &launch->in[0], RT_INTERLEAVED_DOUT), *y = rt_in(launch, 9);
    TC_TRY(prepare_operands(launcher, node, launch, 1, &dout, &p->attention));
    TC_TRY(rt_expect(launcher, node, launch->in[0].dtype == a->dtype));
    TC_TRY(expect_own_scores(launcher, node, launch));
    TC_TRY(expect_statistics(launcher, node, rt_in(launch, 8), a));
    TC_TRY(rt_expect(launcher, node, !y || (y->dtype == a->dtype && y->count == launch->in[0].count)));
    p->groups = (tk_attention_groups){.groups = a->items, .members = 1, .group_at = {.step = 1}};
    if (n_axes > 0 && rt_out(launch, 3))
        TC_TRY(prepare_groups(launcher, node, &dout, axes, n_axes, a->items, &p->groups));
    TC_TRY(expect_gradients(launcher, node, launch, a, p->groups.groups));
    TC_TRY(prepare_dense(launcher, node, &dout, y, RT_INTERLEAVED_Y, a->e, &a->y));
    TC_TRY(prepare_dense(launcher, node, &dout, &launch->in[0], RT_INTERLEAVED_DOUT, a->e, &a->dout));
    TC_TRY(prepare_dense(launcher, node, &dout, rt_out(launch, 0), RT_INTERLEAVED_DQ, a->d, &a->dq));
    TC_TRY(prepare_dense(launcher, node, &dout, rt_out(launch, 1), RT_INTERLEAVED_DKT, a->d, &a->dkt));
    TC_TRY(prepare_dense(launcher, node, &dout, rt_out(launch, 2), RT_INTERLEAVED_DV, a->e, &a->dv));
    launch->workspace_bytes = launcher->kernels->attention_tiled_grad_workspace(a, &p->groups, launcher->slots);
    launch->params = p;
    launch->run = run_attention_tiled_grad;
    return TC_OK;
}
