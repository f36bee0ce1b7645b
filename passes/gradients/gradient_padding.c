/* gradient_padding.c: the row of an embedding that PyTorch does not train (padding_idx of nn.Embedding). ONNX cannot
 * express it: the file has only a Gather. The dynamo exporter keeps PyTorch's call in the node's metadata. The
 * TorchScript exporter keeps only the module's path as the node's name; padding.def knows it for common models,
 * where the row is 0 unless a program wrote into it. --train-padding trains these rows too. */
#include "passes/torch/metadata/metadata.h"
#include "gradients.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ENDS = 4 }; /* rows examined at each end of a table: a guess is not worth reading a whole table */

static const struct {
    const char *path;
    int64_t row;
} padded[] = {
#define PADDING(path, row) {path, row},
#include "padding.def"
#undef PADDING
};

/* aten.embedding (weight, indices, padding row, scale_grad_by_freq): the row; -1 if there is none. */
static int64_t padding_of_call(tc_build *g, const tc_torch_call *call) {
    const char *row = tc_torch_call_is(call, "aten.embedding") ? tc_torch_call_argument(call, 2, "padding_idx") : NULL;
    const char *scaled = row ? tc_torch_call_argument(call, 3, "scale_grad_by_freq") : NULL;
    if (scaled && strcmp(scaled, "True") == 0) {
        tc_warn(g->ctx, g->of->node,
                "PyTorch divides the gradient of each row of %s by the number of its lookups in the batch "
                "(scale_grad_by_freq); Tempo does not",
                tc_quote(g->ctx, tc_input(g->of->node, 0)->name));
        tc_hint(g->ctx, "train without scale_grad_by_freq, or divide the gradient's rows");
    }
    return row ? strtoll(row, NULL, 10) : -1;
}

/* The node's name is /any/module/<path>/Gather. */
static bool has_path(const char *name, const char *path) {
    static const char op[] = "/Gather";
    size_t n = strlen(name), m = strlen(path), k = sizeof(op) - 1;
    if (n < m + k + 1 || strcmp(name + n - k, op) != 0)
        return false;
    const char *at = name + n - k - m;
    return at[-1] == '/' && strncmp(at, path, m) == 0;
}

static int64_t padding_by_path(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(padded); i++)
        if (has_path(node->name, padded[i].path))
            return padded[i].row;
    return -1;
}

/* The only row of zeros among the first and the last rows of a table. nn.Embedding sets its padding row to 0 and
 * never trains it; other rows are drawn or trained, and not 0. -1: there is none, or more than one. */
static int64_t padding_by_zeros(tc_model *model, const tc_tensor *table) {
    const char *data = table->rank == 2 && table->dims[1] > 1 ? tc_tensor_peek(model, table) : NULL;
    if (!data)
        return -1;
    size_t bytes = (size_t)table->dims[1] * tc_dtype_bits(table->dtype) / 8;
    int64_t rows = table->dims[0], found = -1, n = 0;
    for (int64_t row = 0; row < rows; row = row == ENDS - 1 && rows > 2 * ENDS ? rows - ENDS : row + 1) {
        const char *at = data + (size_t)row * bytes;
        if (*at != 0 || memcmp(at, at + 1, bytes - 1) != 0)
            continue;
        found = row;
        n++;
    }
    return n == 1 && rows > 1 ? found : -1;
}

static int64_t padding_of(tc_build *g) {
    tc_torch_call call;
    if (tc_torch_call_read(g->pool->arena, g->of->node, &call))
        return padding_of_call(g, &call);
    const tc_value *table = tc_input(g->of->node, 0);
    int64_t row = padding_by_path(g->of->node);
    bool by_zeros = row < 0;
    if (by_zeros && table->init)
        row = padding_by_zeros(g->graph->model, table->init);
    if (row < 0)
        return -1;
    tc_note(g->ctx, g->of->node, "row %" PRId64 " of %s%s is taken for the padding row, which PyTorch does not train",
            row, tc_quote(g->ctx, table->name), by_zeros ? ", the only one of zeros," : "");
    tc_hint(g->ctx, "--train-padding trains it");
    return row;
}

tc_value *tc_grad_without_padding(tc_build *g, tc_value *indices, tc_value *dy) {
    int64_t row = g->of->train_padding ? -1 : padding_of(g), after[TC_MAX_RANK];
    size_t n = 0;
    if (row < 0)
        return dy;
    for (int i = tc_grad_rank(g, indices); i < tc_grad_rank(g, dy); i++)
        after[n++] = i;
    tc_value *padding = TC_OP(g, "Equal", indices, tc_build_scalar(g, tc_value_dtype(indices), (double)row));
    return TC_OP(g, "Where", tc_build_unsqueeze(g, padding, after, n), tc_build_like(g, dy, 0), dy);
}
