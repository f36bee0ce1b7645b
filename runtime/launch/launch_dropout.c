/* launch_dropout.c: Dropout nodes of ONNX and of ai.tempo to the kernel of kernels/dropout. Whether they drop, how much
 * and from which seed are operands, read when the node runs. */
#include "../../kernels/common/types.h"
#include "../../kernels/dropout/dropout.h"
#include "launch_draw.h"
#include "launch_util.h"
#include <string.h>

typedef struct dropout_params {
    const rt_random *random;
    uint32_t node;
} dropout_params;

static tk_status run_dropout(tk_queue *q, const rt_launch *launch) {
    const dropout_params *p = launch->params;
    const rt_arg *out = &launch->out[0], *mask = rt_out(launch, 1), *inp = &launch->in[0];
    const rt_arg *ratio = rt_in(launch, 1), *training = rt_in(launch, 2);
    if (training && *(const uint8_t *)training->data) {
        tk_draw draw = {p->random->seed, p->node, (uint32_t)p->random->step};
        return tk_dropout(q, out->data, mask ? mask->data : NULL, inp->data, inp->count,
                          ratio ? tk_get(ratio->data, ratio->dtype, 0) : 0.5, &draw, inp->dtype);
    }
    if (out->data != inp->data)
        memcpy(out->data, inp->data, (size_t)inp->count * tk_size(inp->dtype));
    if (mask)
        memset(mask->data, 1, (size_t)mask->count);
    return TK_OK;
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
    p->random = launcher->random;
    p->node = (uint32_t)tc_attr_int(node, "node", node->ordinal);
    launch->params = p;
    launch->run = run_dropout;
    launch->inplace = 1;
    return TC_OK;
}

/* --- of ai.tempo ------------------------------------------------------------------------------ */

tk_draw rt_draw(const rt_arg *seed, uint32_t node) {
    const int64_t *pair = seed->data;
    return (tk_draw){(uint64_t)pair[0], node, (uint32_t)(uint64_t)pair[1]};
}

tc_status rt_expect_draw(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, uint32_t ratio,
                         uint32_t seed) {
    const rt_arg *r = rt_in(launch, ratio), *s = rt_in(launch, seed);
    if (r && !tk_is_float(r->dtype))
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for a ratio of type %s",
                        tc_dtype_name((tc_dtype)r->dtype));
    return rt_expect(launcher, node, (!r || r->count == 1) && (!s || (s->count == 2 && s->dtype == TK_I64)));
}

/* (X, Ratio, Seed) -> Y, Mask */
static tk_status run_seeded(tk_queue *q, const rt_launch *launch) {
    const rt_arg *in = launch->in, *mask = rt_out(launch, 1);
    tk_draw draw = rt_draw(&in[2], *(const uint32_t *)launch->params);
    return tk_dropout(q, launch->out[0].data, mask ? mask->data : NULL, in[0].data, in[0].count,
                      tk_get(in[1].data, in[1].dtype, 0), &draw, in[0].dtype);
}

tc_status rt_launch_seeded_dropout(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    uint32_t *ordinal = RT_PARAMS(launcher, uint32_t);
    *ordinal = (uint32_t)tc_attr_int(node, "node", 0);
    TC_TRY(rt_expect_draw(launcher, node, launch, 1, 2));
    launch->params = ordinal;
    launch->run = run_seeded;
    launch->inplace = 1;
    return TC_OK;
}

/* (dY, Mask, Ratio) -> dX */
static tk_status run_dropout_grad(tk_queue *q, const rt_launch *launch) {
    const rt_arg *in = launch->in;
    return tk_dropout_grad(q, launch->out[0].data, in[0].data, in[1].data, in[0].count,
                           tk_get(in[2].data, in[2].dtype, 0), in[0].dtype);
}

tc_status rt_launch_dropout_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(rt_expect_draw(launcher, node, launch, 2, 3));
    TC_TRY(rt_expect(launcher, node, launch->in[1].dtype == TK_BOOL && launch->in[1].count == launch->in[0].count));
    launch->run = run_dropout_grad;
    launch->inplace = 1;
    return TC_OK;
}
