/* launch_elementwise.c: unary, binary and variadic elementwise nodes to the kernels of kernels/elementwise, which are
 * found by the op's name. */
#include "kernels/elementwise/elementwise.h"
#include "launch_util.h"
#include <string.h>

/* --- one operand ------------------------------------------------------------------------------ */

/* Attributes that the kernels take as parameters, with their defaults; those of IsInf are integers. */
static const struct {
    const char *op, *name[TK_UNARY_PARAMS];
    float otherwise[TK_UNARY_PARAMS];
} unary_attrs[] = {
    {"LeakyRelu", {"alpha"}, {0.01f}},
    {"ThresholdedRelu", {"alpha"}, {1.0f}},
    {"Elu", {"alpha"}, {1.0f}},
    {"Celu", {"alpha"}, {1.0f}},
    {"Selu", {"alpha", "gamma"}, {1.67326319217681884765625f, 1.05070102214813232421875f}},
    {"HardSigmoid", {"alpha", "beta"}, {0.2f, 0.5f}},
    {"Shrink", {"bias", "lambd"}, {0.0f, 0.5f}},
    {"IsInf", {"detect_negative", "detect_positive"}, {1.0f, 1.0f}},
};

typedef struct unary_params {
    const tk_unary *unary;
    double values[TK_UNARY_PARAMS];
} unary_params;

static void run_unary(tk_queue *q, const rt_launch *launch) {
    const unary_params *p = launch->params;
    launch->kernels->unary_run(q, p->unary, launch->out[0].data, launch->in[0].data, launch->out[0].count, p->values);
}

static void read_unary_attrs(const tc_node *node, double *values) {
    for (size_t i = 0; i < TC_COUNT(unary_attrs); i++) {
        if (strcmp(unary_attrs[i].op, node->op_type) != 0)
            continue;
        for (int k = 0; k < TK_UNARY_PARAMS && unary_attrs[i].name[k]; k++) {
            const tc_attr *attr = tc_attr_find(node, unary_attrs[i].name[k]);
            values[k] = !attr                       ? (double)unary_attrs[i].otherwise[k]
                        : attr->kind == TC_ATTR_INT ? (double)attr->i
                                                    : (double)attr->f;
        }
    }
}

tc_status rt_launch_unary(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    unary_params *p = RT_PARAMS(launcher, unary_params);
    p->unary = tk_unary_find(node->op_type, launch->in[0].dtype);
    if (!p->unary || p->unary->out != launch->out[0].dtype)
        return rt_no_kernel(launcher, node, launch);
    read_unary_attrs(node, p->values);
    launch->params = p;
    launch->run = run_unary;
    launch->inplace[0] = rt_inplace(launch, 1);
    return TC_OK;
}

/* --- two operands ----------------------------------------------------------------------------- */

typedef struct binary_params {
    const tk_binary *binary;
    tk_bcast bc;
} binary_params;

static void run_binary(tk_queue *q, const rt_launch *launch) {
    const binary_params *p = launch->params;
    launch->kernels->binary_run(q, p->binary, launch->out[0].data, launch->in[0].data, launch->in[1].data, &p->bc);
}

/* The kernel's name where an attribute changes the op's meaning. */
static const char *binary_name(const tc_node *node) {
    if (strcmp(node->op_type, "Mod") == 0)
        return tc_attr_int(node, "fmod", 0) ? "Mod" : "ModFloor";
    if (strcmp(node->op_type, "BitShift") == 0)
        return strcmp(tc_attr_string(node, "direction", "LEFT"), "RIGHT") == 0 ? "BitShiftRight" : "BitShiftLeft";
    return node->op_type;
}

tc_status rt_launch_binary(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    binary_params *p = RT_PARAMS(launcher, binary_params);
    p->binary = tk_binary_find(binary_name(node), launch->in[0].dtype);
    if (!p->binary || launch->in[1].dtype != launch->in[0].dtype || p->binary->out != launch->out[0].dtype)
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_broadcast(launcher, node, launch, 0, 2, &p->bc));
    launch->params = p;
    launch->run = run_binary;
    launch->inplace[0] = rt_inplace(launch, 2);
    return TC_OK;
}

typedef struct pow_params {
    tk_bcast bc;
} pow_params;

static void run_pow(tk_queue *q, const rt_launch *launch) {
    const pow_params *p = launch->params;
    launch->kernels->pow(q, launch->out[0].data, launch->in[0].data, launch->in[0].dtype, launch->in[1].data,
                         launch->in[1].dtype, &p->bc);
}

tc_status rt_launch_pow(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    pow_params *p = RT_PARAMS(launcher, pow_params);
    if (!tk_pow_has(launch->in[0].dtype, launch->in[1].dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_broadcast(launcher, node, launch, 0, 2, &p->bc));
    launch->params = p;
    launch->run = run_pow;
    launch->inplace[0] = rt_inplace(launch, 1);
    return TC_OK;
}

/* --- any number of operands ------------------------------------------------------------------- */

/* The first two operands go to the result, then each of the others is joined to it. */
typedef struct variadic_params {
    const tk_binary *binary;
    tk_bcast *bc; /* [n_in]: of operands 0 and 1, then of the result and operand k + 1; of 16-bit sums each operand's */
    const void **data; /* [n_in]: of 16-bit sums */
    bool mean;
} variadic_params;

static void run_variadic(tk_queue *q, const rt_launch *launch) {
    const variadic_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    if (launch->n_in == 1)
        launch->kernels->copy(q, out->data, launch->in[0].data, (size_t)out->count * tk_size(out->dtype));
    for (uint32_t k = 1; k < launch->n_in; k++)
        launch->kernels->binary_run(q, p->binary, out->data, k == 1 ? launch->in[0].data : out->data,
                                    launch->in[k].data, &p->bc[k - 1]);
    if (p->mean)
        launch->kernels->divide(q, out->data, out->count, (double)launch->n_in, out->dtype);
}

static void run_half_sum(tk_queue *q, const rt_launch *launch) {
    const variadic_params *p = launch->params;
    for (uint32_t k = 0; k < launch->n_in; k++)
        p->data[k] = launch->in[k].data;
    launch->kernels->half_sum(q, launch->out[0].data, p->data, p->bc, (int)launch->n_in,
                              p->mean ? (double)launch->n_in : 1, launch->out[0].dtype);
}

tc_status rt_launch_variadic(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    variadic_params *p = RT_PARAMS(launcher, variadic_params);
    bool sum = strcmp(node->op_type, "Sum") == 0;
    p->mean = strcmp(node->op_type, "Mean") == 0;
    p->binary = tk_binary_find(sum || p->mean ? "Add" : node->op_type, launch->in[0].dtype);
    p->bc = TC_NEW_ARRAY(launcher->arena, tk_bcast, launch->n_in);
    bool half_sum = (sum || p->mean) && tk_is_half(launch->in[0].dtype);
    p->data = TC_NEW_ARRAY(launcher->arena, const void *, launch->n_in);
    if (!p->binary)
        return rt_no_kernel(launcher, node, launch);
    for (uint32_t k = half_sum ? 0 : 1; k < launch->n_in; k++) {
        tk_shape pair[2] = {rt_shape(k == 1 ? &launch->in[0] : &launch->out[0]), rt_shape(&launch->in[k])};
        if (launch->in[k].dtype != launch->in[0].dtype)
            return rt_no_kernel(launcher, node, launch);
        if (!tk_bcast_init(&p->bc[half_sum ? k : k - 1], rt_shape(&launch->out[0]), half_sum ? &pair[1] : pair,
                           half_sum ? 1 : 2))
            return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the operands' shapes don't broadcast to the result's");
    }
    launch->params = p;
    launch->run = half_sum ? run_half_sum : run_variadic;
    launch->inplace[0] = rt_inplace(launch, 2);
    return TC_OK;
}

/* --- Clip and Where --------------------------------------------------------------------------- */

static void run_clip(tk_queue *q, const rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *low = rt_in(launch, 1), *high = rt_in(launch, 2);
    launch->kernels->clip(q, launch->out[0].data, inp->data, low ? low->data : NULL, high ? high->data : NULL,
                          inp->count, inp->dtype);
}

tc_status rt_launch_clip(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    if (!tk_clip_has(launch->in[0].dtype))
        return rt_no_kernel(launcher, node, launch);
    for (uint32_t i = 1; i < 3; i++) {
        const rt_arg *bound = rt_in(launch, i);
        if (bound && (bound->count != 1 || bound->dtype != launch->in[0].dtype))
            return tc_error(launcher->ctx, TC_BAD_INPUT, node, "bound %u is not one element of the operand's type", i);
    }
    launch->run = run_clip;
    launch->inplace[0] = rt_inplace(launch, 1);
    return TC_OK;
}

static void run_where(tk_queue *q, const rt_launch *launch) {
    launch->kernels->where(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, launch->in[2].data,
                           tk_size(launch->out[0].dtype), launch->params);
}

tc_status rt_launch_where(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_bcast *bc = RT_PARAMS(launcher, tk_bcast);
    if (launch->in[0].dtype != TK_BOOL || launch->in[1].dtype != launch->in[2].dtype)
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_broadcast(launcher, node, launch, 0, 3, bc));
    launch->params = bc;
    launch->run = run_where;
    launch->inplace[0] = rt_inplace(launch, 3) & ~UINT64_C(1);
    return TC_OK;
}
