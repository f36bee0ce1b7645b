/* dropout.c: Dropout nodes to the kernel of kernels/dropout. Whether they drop, and how much, are operands, read when
 * the node runs. */
#include "../../kernels/dropout/dropout.h"
#include "../../kernels/common/types.h"
#include "util.h"
#include <string.h>

typedef struct dropout_params { const rt_random *random; uint32_t node; } dropout_params;

static tk_status run_dropout(const rt_launch *launch) {
    const dropout_params *p = launch->params;
    const rt_arg *out = &launch->out[0], *mask = rt_out(launch, 1), *inp = &launch->in[0];
    const rt_arg *ratio = rt_in(launch, 1), *training = rt_in(launch, 2);
    if (training && *(const uint8_t *)training->data) {
        tk_draw draw = {p->random->seed, p->node, (uint32_t)p->random->step};
        return tk_dropout(out->data, mask ? mask->data : NULL, inp->data, inp->count,
                          ratio ? tk_get(ratio->data, ratio->dtype, 0) : 0.5, &draw, inp->dtype);
    }
    if (out->data != inp->data)
        memcpy(out->data, inp->data, (size_t)inp->count * tk_size(inp->dtype));
    if (mask)
        memset(mask->data, 1, (size_t)mask->count);
    return TK_OK;
}

tc_status rt_bind_dropout(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    dropout_params *p = RT_PARAMS(binder, dropout_params);
    const rt_arg *ratio = rt_in(launch, 1), *training = rt_in(launch, 2);
    if (ratio && ratio->dtype != TK_F32 && ratio->dtype != TK_F64)
        return rt_no_kernel(binder, node, launch);
    if ((ratio && ratio->count != 1) || (training && (training->count != 1 || training->dtype != TK_BOOL)))
        return tc_error(binder->ctx, TC_BAD_INPUT, node, "ratio and training_mode must be one number and one boolean");
    if (!training && !rt_out(launch, 1)) {
        launch->view_of = 0;
        return TC_OK;
    }
    p->random = binder->random;
    p->node = (uint32_t)tc_attr_int(node, "node", node->ordinal);
    launch->params = p;
    launch->run = run_dropout;
    launch->inplace = 1;
    return TC_OK;
}
