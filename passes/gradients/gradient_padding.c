/* gradient_padding.c: the row of an embedding that PyTorch does not train (padding_idx of nn.Embedding). ONNX has no
 * word for it: a Gather is all that is left. The dynamo exporter keeps PyTorch's call among the node's metadata;
 * TorchScript's keeps only the module's path as the node's name, which padding.def knows for common models.
 * --train-padding trains these rows too. */
#include "../../compiler/onnx_io.h"
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

/* "... aten.embedding.default](args = (%weight, %ids, 0), kwargs = {})": the third argument, -1 when there is none. */
static int64_t padding_of_call(const char *call) {
    static const char start[] = "aten.embedding.default](args = (";
    const char *at = strstr(call, start), *end = at ? strchr(at + sizeof(start), ')') : NULL;
    for (int comma = 0; at && comma < 2; comma++) {
        at = strchr(at + 1, ',');
        at = at && at < end ? at : NULL;
    }
    return at ? strtoll(at + 1, NULL, 10) : -1;
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
    const char *call = tc_node_metadata(g->node, "pkg.torch.onnx.fx_node");
    if (call)
        return padding_of_call(call);
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
