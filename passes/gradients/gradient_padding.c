/* gradient_padding.c: the row of an embedding that PyTorch does not train (padding_idx of nn.Embedding). ONNX has no
 * word for it: a Gather is all that is left. The dynamo exporter keeps PyTorch's call among the node's metadata;
 * TorchScript's keeps only the module's path as the node's name, which padding.def knows for common models.
 * --train-padding trains these rows too. */
#include "../torch/torch_calls.h"
#include "gradient.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *path;
    int64_t row;
} padded[] = {
#define PADDING(path, row) {path, row},
#include "../padding.def"
#undef PADDING
};

/* aten.embedding (weight, indices, padding row, scale_grad_by_freq): the row; -1 where there is none. */
static int64_t padding_of_call(tc_grad *g, const tc_torch_call *call) {
    const char *row = tc_torch_call_is(call, "aten.embedding") ? tc_torch_call_argument(call, 2, "padding_idx") : NULL;
    const char *scaled = row ? tc_torch_call_argument(call, 3, "scale_grad_by_freq") : NULL;
    if (scaled && strcmp(scaled, "True") == 0) {
        tc_warn(g->ctx, g->node,
                "PyTorch divides the gradient of each row of %s by how often the batch has the row "
                "(scale_grad_by_freq); here it is not divided",
                tc_quote(g->ctx, tc_input(g->node, 0)->name));
        tc_hint(g->ctx, "train without scale_grad_by_freq, or divide the gradient's rows");
    }
    return row ? strtoll(row, NULL, 10) : -1;
}

/* The node is called /any/module/<path>/Gather. */
static bool has_path(const char *name, const char *path) {
    static const char op[] = "/Gather";
    size_t n = strlen(name), m = strlen(path), k = sizeof(op) - 1;
    if (n < m + k + 1 || strcmp(name + n - k, op) != 0)
        return false;
    const char *at = name + n - k - m;
    return at[-1] == '/' && strncmp(at, path, m) == 0;
}

static int64_t padding_of(tc_grad *g) {
    tc_torch_call call;
    if (tc_torch_call_read(g->pool->arena, g->node, &call))
        return padding_of_call(g, &call);
    for (size_t i = 0; i < TC_COUNT(padded); i++) {
        if (!has_path(g->node->name, padded[i].path))
            continue;
        tc_note(g->ctx, g->node, "row %d of %s is taken for the padding row, which PyTorch does not train",
                (int)padded[i].row, tc_quote(g->ctx, tc_input(g->node, 0)->name));
        tc_hint(g->ctx, "--train-padding trains it");
        return padded[i].row;
    }
    return -1;
}

tc_value *tc_grad_without_padding(tc_grad *g, tc_value *indices, tc_value *dy) {
    int64_t row = g->train_padding ? -1 : padding_of(g), after[TC_MAX_RANK];
    size_t n = 0;
    if (row < 0)
        return dy;
    for (int i = tc_grad_rank(g, indices); i < tc_grad_rank(g, dy); i++)
        after[n++] = i;
    tc_value *padding = TC_OP(g, "Equal", indices, tc_grad_scalar(g, tc_value_dtype(indices), (double)row));
    return TC_OP(g, "Where", tc_grad_unsqueeze(g, padding, after, n), tc_grad_like(g, dy, 0), dy);
}
