/* upgrade_ort_broadcast.c: gradients of broadcast operands in ONNX Runtime's ops: BroadcastGradientArgs computes
 * from the shapes of two operands the axes to sum over for each of them; DivGrad sums by itself. */
#include "compiler/contents/contents.h"
#include "compiler/shape/shape.h"
#include "upgrade_ort.h"

/* The shape with leading ones, up to the other operand's rank. */
static tc_value *padded(tc_upgrade *up, tc_node *node, tc_value *shape, int missing) {
    int64_t ones[TC_MAX_RANK];
    for (int i = 0; i < missing; i++)
        ones[i] = 1;
    if (missing <= 0)
        return shape;
    tc_value *all = TC_EMIT(node, "Concat", "padded", tc_upgrade_ints(up, node, "ones", ones, missing), shape);
    tc_attr_set_int(all->producer, "axis", 0);
    return all;
}

/* The axes along which an operand was broadcast, if dims show them: those that it lacks, and its ones. False: they
 * do not show them. */
static bool repeated_axes(const tc_contents *own, const tc_contents *other, int64_t axes[TC_MAX_RANK], int *out_n) {
    int rank = (int)(own->count > other->count ? own->count : other->count), lacks = rank - (int)own->count;
    *out_n = 0;
    for (int i = 0; i < rank; i++) {
        tc_dim mine = i < lacks ? tc_dim_const(1) : own->items[i - lacks].i;
        int at = i - (rank - (int)other->count);
        tc_dim theirs = at < 0 ? tc_dim_const(1) : other->items[at].i;
        bool one = tc_dim_equal(mine, tc_dim_const(1));
        if (one && (i < lacks || !tc_dim_equal(theirs, mine)))
            axes[(*out_n)++] = i;
        else if (!tc_dim_equal(mine, theirs) && !tc_dim_is_const(mine))
            return false;
    }
    return true;
}

/* The same at run time: the axes at which the operand's own size is not the larger of both. */
static tc_value *axes_at_run_time(tc_upgrade *up, tc_node *node, tc_value *own, tc_value *largest) {
    static const int64_t all = -1;
    tc_value *differs = TC_EMIT(node, "Not", "differs", TC_EMIT(node, "Equal", "same", own, largest));
    tc_value *where = TC_EMIT(node, "NonZero", "where", differs);
    return TC_EMIT(node, "Reshape", "axes", where, tc_upgrade_ints(up, node, "flat", &all, 1));
}

/* The axes to sum over for each of two operands with these `shapes`. */
static tc_status broadcast_axes(tc_upgrade *up, tc_node *node, tc_value *const shapes[2], tc_value *out_axes[2]) {
    const tc_contents *known[2];
    int64_t axes[TC_MAX_RANK], counts[2];
    int n;
    for (int i = 0; i < 2; i++) {
        known[i] = shapes[i] ? tc_value_contents(up->model, shapes[i]) : NULL;
        const tc_type *type = shapes[i] ? shapes[i]->type : NULL;
        if (!type || type->rank != 1 || !type->dims || !tc_dim_is_const(type->dims[0]) ||
            type->dims[0].value > TC_MAX_RANK)
            return tc_error(up->ctx, TC_UNSUPPORTED, node, "the rank that the shape '%s' is of is not known",
                            shapes[i] ? tc_quote(up->ctx, shapes[i]->name) : "absent");
        counts[i] = type->dims[0].value;
    }
    tc_value *full[2], *largest = NULL;
    for (int i = 0; i < 2; i++) {
        if (known[0] && known[1] && repeated_axes(known[i], known[1 - i], axes, &n)) {
            out_axes[i] = tc_upgrade_ints(up, node, "axes", axes, n);
            continue;
        }
        for (int k = 0; k < 2 && !largest; k++)
            full[k] = padded(up, node, shapes[k], (int)(counts[1 - k] - counts[k]));
        if (!largest)
            largest = TC_EMIT(node, "Max", "largest", full[0], full[1]);
        out_axes[i] = axes_at_run_time(up, node, full[i], largest);
    }
    return TC_OK;
}

tc_status tc_ort_broadcast_axes(tc_upgrade *up, tc_node *node) {
    tc_value *shapes[] = {tc_input(node, 0), tc_input(node, 1)}, *axes[2];
    TC_TRY(tc_ort_need_results(up, node, 2));
    TC_TRY(broadcast_axes(up, node, shapes, axes));
    tc_ort_replace_results(node, axes, 2);
    return TC_OK;
}

/* A gradient summed to the shape of its broadcast operand; `what` names it. */
static tc_value *summed(tc_node *node, const char *what, tc_value *gradient, tc_value *axes, tc_value *shape) {
    tc_value *sum = TC_EMIT(node, "ReduceSum", what, gradient, axes);
    tc_attr_set_int(sum->producer, "keepdims", 1);
    tc_attr_set_int(sum->producer, "noop_with_empty_axes", 1);
    return TC_EMIT(node, "Reshape", what, sum, shape);
}

/* (dY, A, B) of A / B: dA = dY / B, dB = -dY A / B / B. */
tc_status tc_ort_div_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *a = tc_input(node, 1), *b = tc_input(node, 2), *axes[2], *gradients[2];
    TC_TRY(tc_ort_need_results(up, node, 2));
    tc_value *shapes[] = {TC_EMIT(node, "Shape", "a_shape", a), TC_EMIT(node, "Shape", "b_shape", b)};
    for (int i = 0; i < 2; i++)
        TC_TRY(tc_infer_node(up->ctx, shapes[i]->producer));
    TC_TRY(broadcast_axes(up, node, shapes, axes));
    tc_value *da = TC_EMIT(node, "Div", "da", dy, b), *quotient = TC_EMIT(node, "Div", "quotient", a, b);
    tc_value *db =
        TC_EMIT(node, "Neg", "db", TC_EMIT(node, "Div", "share", TC_EMIT(node, "Mul", "product", dy, quotient), b));
    gradients[0] = summed(node, "da", da, axes[0], shapes[0]);
    gradients[1] = summed(node, "db", db, axes[1], shapes[1]);
    tc_ort_replace_results(node, gradients, 2);
    return TC_OK;
}
