/* launch_dropout.c: Dropout nodes of ONNX and of ai.tempo to the kernel of kernels/dropout, random numbers to those of
 * kernels/create. Whether they drop, how much and from which seed are operands, read when the node runs. */
#include "kernels/create/create.h"
#include "launch_draw.h"
#include "launch_util.h"

typedef struct dropout_params {
    tk_seed seed; /* `pair` is the session's, or an operand */
} dropout_params;

static void run_dropout(tk_queue *q, const rt_launch *launch) {
    const dropout_params *p = launch->params;
    const rt_arg *out = &launch->out[0], *inp = &launch->in[0];
    launch->kernels->dropout(q, out->data, rt_data(rt_out(launch, 1)), inp->data, inp->count,
                             rt_ratio(rt_in(launch, 1), 0.5), p->seed, rt_data(rt_in(launch, 2)), inp->dtype);
}

/* Without a training_mode nothing is dropped; here the mask is used. */
static void run_undropped(tk_queue *q, const rt_launch *launch) {
    static const uint8_t kept = 1;
    const rt_arg *out = &launch->out[0], *mask = &launch->out[1];
    launch->kernels->copy(q, out->data, launch->in[0].data, (size_t)out->count * tk_size(out->dtype));
    launch->kernels->fill(q, mask->data, &kept, mask->count, sizeof kept);
}

static bool may_drop(const tc_node *node) {
    const tc_value *training = tc_input(node, 2);
    const tc_tensor *known = training ? tc_value_constant(training) : NULL;
    return training && !(known && known->data && known->dtype == TC_BOOL && tc_tensor_get_int(known, 0) == 0);
}

tc_status rt_launch_dropout(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    dropout_params *p = RT_PARAMS(launcher, dropout_params);
    const rt_arg *ratio = rt_in(launch, 1), *training = rt_in(launch, 2);
    if (ratio && !tk_is_float(ratio->dtype))
        return rt_no_kernel(launcher, node, launch);
    if ((ratio && ratio->count != 1) || (training && (training->count != 1 || training->dtype != TK_BOOL)))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                        "ratio and training_mode must be one number and one boolean");
    if (!training && !rt_out(launch, 1)) {
        launch->view_of = 0;
        return TC_OK;
    }
    if (may_drop(node))
        TC_TRY(rt_dropout_draw(launcher, node, node->ordinal, &p->seed));
    rt_add_table(launcher, launcher->random->pair, sizeof launcher->random->pair, &p->seed.pair)->changes = true;
    launch->params = p;
    launch->run = training ? run_dropout : run_undropped;
    launch->inplace[0] = 1;
    return TC_OK;
}

/* --- of ai.tempo ------------------------------------------------------------------------------ */

tk_number rt_ratio(const rt_arg *ratio, double otherwise) {
    return ratio ? (tk_number){.data = ratio->data, .dtype = ratio->dtype} : (tk_number){.otherwise = otherwise};
}

tk_seed rt_seed(const rt_arg *seed, tk_seed draw) {
    draw.pair = seed ? seed->data : NULL;
    return draw;
}

tc_status rt_dropout_draw(rt_launcher *launcher, const tc_node *node, uint32_t otherwise, tk_seed *out_draw) {
    *out_draw = (tk_seed){.node = (uint32_t)tc_attr_int(node, "node", otherwise),
                          .is_minstd = launcher->random->ort,
                          .own = tc_attr_int(node, "seed", 0)};
    if (!launcher->random->ort || tc_attr_find(node, "seed"))
        return TC_OK;
    tc_error(launcher->ctx, TC_UNSUPPORTED, node,
             "drops without a seed of its own: no file says what ONNX Runtime draws for it");
    tc_hint(launcher->ctx, "give each Dropout of the model the attribute seed, a number of its own, before ONNX "
                           "Runtime's tools and tempoc see it; a Dropout in a loop has none");
    return TC_UNSUPPORTED;
}

tc_status rt_expect_draw(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t ratio,
                         uint32_t seed) {
    const rt_arg *r = rt_in(launch, ratio), *s = rt_in(launch, seed);
    if (r && !tk_is_float(r->dtype))
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for a ratio of type %s",
                        tc_dtype_name((tc_dtype)r->dtype));
    return rt_expect(launcher, node, (!r || r->count == 1) && (!s || (s->count == 2 && s->dtype == TK_I64)));
}

bool rt_is_packed(const rt_arg *mask) { return mask && mask->dtype == TK_U8; }

size_t rt_unpacked_bytes(const rt_arg *mask, int64_t elements) { return rt_is_packed(mask) ? (size_t)elements : 0; }

tc_status rt_expect_mask(rt_launcher *launcher, const tc_node *node, const rt_arg *mask, int64_t elements) {
    const int64_t count = rt_is_packed(mask) ? tk_bit_bytes(elements) : elements;
    return rt_expect(launcher, node, !mask || (mask->count == count && (rt_is_packed(mask) || mask->dtype == TK_BOOL)));
}

/* (X, Ratio, Seed) -> Y, Mask. Bits are packed from bytes in the workspace. */
static void run_seeded(tk_queue *q, const rt_launch *launch) {
    const rt_arg *in = launch->in, *mask = rt_out(launch, 1);
    uint8_t *bytes = rt_is_packed(mask) ? launch->workspace : rt_data(mask);
    launch->kernels->dropout(q, launch->out[0].data, bytes, in[0].data, in[0].count, rt_ratio(&in[1], 0),
                             rt_seed(&in[2], ((const dropout_params *)launch->params)->seed), NULL, in[0].dtype);
    if (rt_is_packed(mask))
        launch->kernels->pack_bits(q, mask->data, bytes, in[0].count);
}

tc_status rt_launch_seeded_dropout(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    dropout_params *p = RT_PARAMS(launcher, dropout_params);
    TC_TRY(rt_dropout_draw(launcher, node, 0, &p->seed));
    TC_TRY(rt_expect_draw(launcher, node, launch, 1, 2));
    TC_TRY(rt_expect_mask(launcher, node, rt_out(launch, 1), launch->in[0].count));
    launch->workspace_bytes = rt_unpacked_bytes(rt_out(launch, 1), launch->in[0].count);
    launch->params = p;
    launch->run = run_seeded;
    launch->inplace[0] = 1;
    return TC_OK;
}

/* (dY, Mask, Ratio) -> dX */
static void run_dropout_grad(tk_queue *q, const rt_launch *launch) {
    const rt_arg *in = launch->in;
    const uint8_t *mask = in[1].data;
    if (rt_is_packed(&in[1])) {
        launch->kernels->unpack_bits(q, launch->workspace, mask, in[0].count);
        mask = launch->workspace;
    }
    launch->kernels->dropout_grad(q, launch->out[0].data, in[0].data, mask, in[0].count, rt_ratio(&in[2], 0),
                                  in[0].dtype);
}

tc_status rt_launch_dropout_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(rt_expect_draw(launcher, node, launch, 2, 3));
    TC_TRY(rt_expect_mask(launcher, node, &launch->in[1], launch->in[0].count));
    launch->workspace_bytes = rt_unpacked_bytes(&launch->in[1], launch->in[0].count);
    launch->run = run_dropout_grad;
    launch->inplace[0] = 1;
    return TC_OK;
}

/* --- random numbers --------------------------------------------------------------------------- */

typedef struct random_params {
    float a, b;
    tk_seed seed; /* node; `pair` is the session's where the node has no seed of its own */
} random_params;

/* Operand 1 of the ops of ai.tempo. */
static tk_seed seed_of(const rt_launch *launch, const random_params *p) {
    return launch->n_in > 1 ? rt_seed(&launch->in[1], p->seed) : p->seed;
}

static void run_uniform(tk_queue *q, const rt_launch *launch) {
    const random_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    launch->kernels->random_uniform(q, out->data, out->count, p->a, p->b, seed_of(launch, p), out->dtype);
}

static void run_normal(tk_queue *q, const rt_launch *launch) {
    const random_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    launch->kernels->random_normal(q, out->data, out->count, p->a, p->b, seed_of(launch, p), out->dtype);
}

/* (Shape, Seed) -> Y of ai.tempo; those of ONNX, with one operand or none, draw from the session's seed. */
static tc_status launch_random(rt_launcher *launcher, const tc_node *node, rt_launch *launch, random_params params) {
    random_params *p = RT_PARAMS(launcher, random_params);
    if (!tk_is_float(launch->out[0].dtype))
        return rt_no_kernel(launcher, node, launch);
    *p = params;
    p->seed.node = (uint32_t)tc_attr_int(node, "node", (int64_t)node->ordinal | INT64_C(1) << 31);
    if (node->n_inputs > 1)
        TC_TRY(rt_expect_draw(launcher, node, launch, 2, 1));
    else
        rt_add_table(launcher, launcher->random->pair, sizeof launcher->random->pair, &p->seed.pair)->changes = true;
    launch->params = p;
    return TC_OK;
}

tc_status rt_launch_random_uniform(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    launch->run = run_uniform;
    return launch_random(launcher, node, launch,
                         (random_params){tc_attr_float(node, "low", 0), tc_attr_float(node, "high", 1), {0}});
}

tc_status rt_launch_random_normal(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    launch->run = run_normal;
    return launch_random(launcher, node, launch,
                         (random_params){tc_attr_float(node, "mean", 0), tc_attr_float(node, "scale", 1), {0}});
}
