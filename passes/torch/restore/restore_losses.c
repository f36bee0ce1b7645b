/* restore_losses.c: sums over losses of rows. With a dynamic batch the dynamo exporter treats the result of
 * `cross_entropy_loss(..., reduction none)` and of `nll_loss` as a scalar, and elementwise results of it as well.
 * The file declares it so, and a sum of it is an Identity. The calls show the truth: `sum.default(%loss)`. */
#include "restore_nodes.h"
#include <stdlib.h>
#include <string.h>

enum { LABELS = 1, AXES = 1, KEEPDIMS = 2 }; /* of a loss; of calls */

typedef struct losses {
    tc_restore *r;
    tc_map *rows; /* values that are declared as scalars but are not -> the name of their call's result */
    const char **names;
    size_t n;
} losses;

/* One loss per row, declared as a scalar. */
static bool is_lost(const tc_node *node) {
    bool loss = tc_node_is(node, "", "SoftmaxCrossEntropyLoss") || tc_node_is(node, "", "NegativeLogLikelihoodLoss");
    return loss && tc_input(node, LABELS) && tc_value_rank(tc_input(node, LABELS)) > 0 &&
           strcmp(tc_attr_string(node, "reduction", "mean"), "none") == 0;
}

static const char *reduction_of(const tc_torch_call *call) {
    static const char *const ops[][2] = {{"aten.sum", "ReduceSum"},
                                         {"aten.mean", "ReduceMean"},
                                         {"aten.logsumexp", "ReduceLogSumExp"},
                                         {"aten.amax", "ReduceMax"},
                                         {"aten.amin", "ReduceMin"}};
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_torch_call_is(call, ops[i][0]))
            return ops[i][1];
    return NULL;
}

/* "[0, -1]" or "0"; an empty list means all axes. */
static size_t read_axes(const char *word, int64_t axes[TC_MAX_RANK]) {
    size_t n = 0;
    for (const char *at = word ? word + strcspn(word, "-0123456789") : ""; *at && n < TC_MAX_RANK;) {
        char *end;
        axes[n++] = strtoll(at, &end, 10);
        at = end + strcspn(end, "-0123456789");
    }
    return n;
}

/* Replaces an Identity of the call by the reduction that it stands for. */
static void reduce(losses *s, tc_node *node, const tc_torch_call *call, const char *op_type) {
    int64_t axes[TC_MAX_RANK];
    size_t n = read_axes(tc_torch_call_argument(call, AXES, "dim"), axes);
    const char *keepdims = tc_torch_call_argument(call, KEEPDIMS, "keepdim");
    tc_node_set_op(node, "", op_type);
    tc_attr_set_int(node, "keepdims", keepdims && strcmp(keepdims, "True") == 0);
    if (n)
        tc_restore_set_axes(node, axes, n);
    if (s->n < s->r->n) /* no exporter writes two nodes of one call */
        s->names[s->n++] = call->result;
}

/* The call reads the program's value, or an equal one that the optimizer merged with it. A reduction over one axis
 * may have left no node of its own: then the call names its result. */
static bool names_value(losses *s, const tc_torch_call *call, const tc_value *value) {
    const char *result = tc_map_get_ptr(s->rows, value);
    size_t n;
    const char **names = tc_torch_call_names(s->r->arena, call, &n);
    bool own = strcmp(call->result, result) == 0;
    for (size_t i = 0; i < n; i++)
        own |= tc_torch_same_stem(names[i], result);
    return own;
}

/* Other ops that leave a scalar unchanged, such as a sort, are missing from the file. */
static bool is_copy(const tc_torch_call *call) {
    static const char *const ops[] = {"aten.alias",      "aten.clone",   "aten.contiguous", "aten.detach",
                                      "aten.lift_fresh", "aten.detach_", "aten.dropout",    "aten._to_copy"};
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_torch_call_is(call, ops[i]))
            return true;
    return false;
}

static bool is_row(const losses *s, const tc_value *value) { return value && tc_map_get_ptr(s->rows, value); }

static bool reads_rows(const losses *s, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (is_row(s, tc_input(node, i)))
            return true;
    return false;
}

static tc_status check_call(losses *s, const tc_node *node, const tc_torch_call *call) {
    bool known = !tc_node_is(node, "", "Identity") || reduction_of(call) || is_copy(call);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (is_row(s, tc_input(node, i)) && (!known || !names_value(s, call, tc_input(node, i))))
            return tc_restore_refuse(s->r, node, "the file lacks PyTorch's reduction of the losses of rows",
                                     "reduce them by .mean() or .sum(), without axes, or export a batch of fixed size");
    return TC_OK;
}

/* *out_rows: the node's results are of rows, too. A reduction's result is a scalar, as declared. */
static tc_status visit(losses *s, tc_node *node, bool *out_rows) {
    tc_torch_call call;
    bool reads = reads_rows(s, node), lost = is_lost(node);
    *out_rows = lost && tc_output(node, 0);
    if (!(reads || lost) || !tc_output(node, 0) || !tc_torch_call_read(s->r->arena, node, &call))
        return TC_OK;
    TC_TRY(check_call(s, node, &call));
    const char *op_type = reduction_of(&call);
    if (reads && op_type && tc_node_is(node, "", "Identity"))
        reduce(s, node, &call, op_type);
    *out_rows |= reads && !op_type && strncmp(node->op_type, "Reduce", strlen("Reduce")) != 0;
    *out_rows = *out_rows && tc_value_rank(tc_output(node, 0)) == 0;
    if (*out_rows)
        tc_map_set_ptr(s->rows, tc_output(node, 0), (void *)(uintptr_t)call.result);
    return TC_OK;
}

tc_status tc_restore_losses(tc_restore *r) {
    losses s = {.r = r, .rows = tc_map_create(r->arena), .names = TC_NEW_ARRAY(r->arena, const char *, r->n + 1)};
    if (!r->n)
        return TC_OK;
    TC_FOR_NODES(node, r->graph) {
        bool rows;
        TC_TRY(visit(&s, node, &rows));
        if (rows && !tc_output(node, 0)->n_graph_outputs)
            tc_output(node, 0)->type = NULL;
    }
    if (s.n)
        tc_note(r->env->ctx, NULL, "the reduction of rows to %s is restored, as in PyTorch",
                tc_quote_list(r->env->ctx, s.names, s.n));
    return TC_OK;
}
