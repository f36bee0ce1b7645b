/* unfold_bias.c: biases that were zero when the model was exported. The dynamo exporter (optimize=True) drops those
 * of Gemm, Conv and ConvTranspose, because they change nothing; PyTorch trains them all the same. The node's call
 * names them. */
#include "passes/torch/metadata/metadata.h"
#include "unfold.h"
#include <string.h>

static const struct {
    const char *op, *operation;
    size_t argument; /* of the call: the bias */
} rows[] = {
    {"Gemm", "aten.linear", 2},
    {"Gemm", "aten.addmm", 0},
    {"Conv", "aten.conv1d", 2},
    {"Conv", "aten.conv2d", 2},
    {"Conv", "aten.conv3d", 2},
    {"Conv", "aten.convolution", 2},
    {"ConvTranspose", "aten.conv_transpose1d", 2},
    {"ConvTranspose", "aten.conv_transpose2d", 2},
    {"ConvTranspose", "aten.conv_transpose3d", 2},
    {"ConvTranspose", "aten.convolution", 2},
};

enum { BIAS = 2, CHANNELS = 1 }; /* the operand, and the result's axis of channels, for all three ops */

/* PyTorch's name of the bias that the node lacks; NULL: it has one, or never had. */
static const char *dropped_bias(const tc_unfold *u, const tc_torch_signature *signature, const tc_node *node) {
    tc_torch_call call;
    if (strcmp(node->domain, "") != 0 || tc_input(node, BIAS) || !tc_torch_call_read(u->scratch, node, &call))
        return NULL;
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        if (strcmp(node->op_type, rows[i].op) != 0 || !tc_torch_call_is(&call, rows[i].operation))
            continue;
        const char *text = tc_torch_call_argument(&call, rows[i].argument, "bias");
        const tc_torch_input *input = text && *text == '%' ? tc_map_get(signature->by_token, text + 1) : NULL;
        if (input && input->kind == TC_TORCH_PARAMETER)
            return input->target;
    }
    return NULL;
}

/* A vector of zeros, one for each channel of the result. */
static bool is_dropped(const tc_unfold *u, const tc_value *value, const tc_value *result) {
    const tc_tensor *tensor = value->init;
    const char *data = tc_tensor_peek(u->graph->model, tensor);
    bool fits = tensor->rank == 1 && tensor->dims[0] == result->type->dims[CHANNELS].value &&
                tensor->dtype == tc_value_dtype(result);
    return fits && data && tensor->bytes > 0 && data[0] == 0 && memcmp(data, data + 1, tensor->bytes - 1) == 0;
}

void tc_unfold_biases(tc_unfold *u, const tc_torch_signature *signature) {
    TC_FOR_NODES(node, u->graph) {
        const tc_value *result = tc_output(node, 0);
        if (!result || tc_value_rank(result) <= CHANNELS || !tc_dim_is_const(result->type->dims[CHANNELS]) ||
            result->type->dims[CHANNELS].value > TC_MOST_CHANNELS)
            continue;
        const char *target = dropped_bias(u, signature, node);
        tc_value *bias = target ? tc_unfold_parameter_of(u, target) : NULL;
        if (!target || (bias && !is_dropped(u, bias, result)))
            continue;
        if (!bias)
            bias = tc_unfold_make_parameter(u, target,
                                            tc_tensor_create(u->graph->model, tc_value_dtype(result), 1,
                                                             &result->type->dims[CHANNELS].value, NULL));
        tc_node_set_input(node, BIAS, bias);
        tc_attr_remove(node, "beta");
        tc_unfold_tell(u, &u->biases, tc_quote(u->env->ctx, target));
    }
}
