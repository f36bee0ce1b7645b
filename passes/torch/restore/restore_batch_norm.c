/* restore_batch_norm.c: BatchNormalization of a model in training mode, which the dynamo exporter writes in
 * inference mode. The call shows it: `_native_batch_norm_legit_functional(%x, %weight, %bias, %running_mean,
 * %running_var, True, 0.1, 1e-05)`. If the exporter's optimizer folded such a node into the operator before it,
 * scale, bias and the statistics of the batch are lost.
 * For a norm without running statistics the exporter computes those of the batch in the graph; these stay. */
#include "restore_nodes.h"
#include <string.h>

static const char *const operations[] = {
    "aten._native_batch_norm_legit_functional",
    "aten._native_batch_norm_legit",
    "aten._native_batch_norm_legit_no_training",
    "aten.native_batch_norm",
    "aten.cudnn_batch_norm",
    "aten.batch_norm",
};
/* Ops that the exporter's optimizer folds a norm into. */
static const char *const folders[] = {"Conv", "ConvTranspose", "Gemm"};
enum { WEIGHT = 1, BIAS = 2, RUNNING_MEAN = 3, RUNNING_VAR = 4 }; /* of the calls, and of ONNX's operands */
enum { OUTPUTS = 3 };                                             /* of BatchNormalization since opset 14 */

typedef struct norms {
    tc_restore *r;
    const char **restored, **folded; /* names in PyTorch */
    size_t n_restored, n_folded;
    const tc_node *at; /* the first op that a norm was folded into */
} norms;

bool tc_is_batch_norm_call(const tc_torch_call *call) {
    for (size_t i = 0; i < TC_COUNT(operations); i++)
        if (tc_torch_call_is(call, operations[i]))
            return true;
    return false;
}

/* The first switch among the arguments is `training`; `..._no_training` has none. */
static bool is_training(const tc_torch_call *call) {
    for (size_t i = 0; i < call->n_args; i++)
        if (strcmp(call->args[i], "True") == 0 || strcmp(call->args[i], "False") == 0)
            return call->args[i][0] == 'T';
    return false;
}

/* "m.bn" of "m.bn.running_mean"; the node's own name if the call has none. */
static const char *name_of(const tc_restore *r, const tc_torch_call *call, const tc_node *node) {
    const char *target = tc_restore_target(r, tc_torch_call_argument(call, RUNNING_MEAN, NULL));
    target = target ? target : tc_restore_target(r, tc_torch_call_argument(call, WEIGHT, NULL));
    const char *dot = target ? strrchr(target, '.') : NULL;
    return dot ? tc_arena_strndup(r->arena, target, (size_t)(dot - target)) : tc_node_label(node);
}

/* Whether the call has running statistics, also as constants in the program's text. */
static bool gives_statistics(const tc_torch_call *call) {
    const char *mean = tc_torch_call_argument(call, RUNNING_MEAN, NULL);
    const char *variance = tc_torch_call_argument(call, RUNNING_VAR, NULL);
    return mean && variance && mean[0] == '%' && variance[0] == '%';
}

/* A norm without weight and bias. The exporter expands 1 and 0 to the shape of x, where ONNX expects one number per
 * channel; or it uses an initializer that happens to hold these numbers, perhaps another norm's weight. */
static void restore_plain(tc_restore *r, const tc_torch_call *call, tc_node *node, uint32_t index, double number) {
    tc_value *mean = tc_input(node, RUNNING_MEAN);
    const char *word = tc_torch_call_argument(call, index, NULL);
    bool absent = word && strcmp(word, "None") == 0;
    if (absent && mean && mean->producer && gives_statistics(call)) {
        tc_restore_nodes nodes = tc_restore_before(r, node, "plain");
        tc_value *plain = tc_restore_add(&nodes, "Sub", mean, mean, NULL);
        tc_dtype dtype = tc_value_dtype(mean) == TC_UNDEFINED ? TC_FLOAT : tc_value_dtype(mean);
        tc_node_set_input(node, index,
                          tc_restore_add(&nodes, "Add", plain, tc_restore_number(&nodes, dtype, number), NULL));
        return;
    }
    if (!absent || !mean || !mean->init || mean->init->rank != 1 || !tc_dtype_is_float(mean->init->dtype) ||
        mean->init->count > TC_MOST_CHANNELS)
        return;
    const tc_tensor *like = mean->init;
    tc_tensor *plain = tc_tensor_create(r->graph->model, like->dtype, 1, like->dims, NULL);
    for (uint64_t i = 0; i < plain->count; i++)
        tc_element_set(plain->dtype, (void *)(uintptr_t)plain->data, i, number);
    tc_node_set_input(node, index, tc_constant(r->graph, index == WEIGHT ? "ones" : "zeros", plain));
}

/* Equal initializers are stored once: the mean of a fresh norm is its bias. A trained initializer is no statistic. */
static void restore_statistic(const tc_restore *r, const tc_torch_call *call, tc_node *node, uint32_t index) {
    const char *target = tc_restore_target(r, tc_torch_call_argument(call, index, NULL));
    const tc_value *operand = tc_input(node, index);
    if (!target || !operand->init || operand->is_input || strcmp(target, operand->name) == 0)
        return;
    tc_tensor *copy = TC_NEW(r->graph->model->arena, tc_tensor);
    *copy = *operand->init;
    copy->origin = NULL;
    tc_value *value = tc_constant(r->graph, target, copy);
    copy->name = value->name;
    value->learned = TC_LEARNED_NO;
    tc_node_set_input(node, index, value);
}

static void restore_mode(const tc_restore *r, const tc_torch_call *call, tc_node *node) {
    static const char *const results[OUTPUTS] = {NULL, "running_mean", "running_var"};
    restore_statistic(r, call, node, RUNNING_MEAN);
    restore_statistic(r, call, node, RUNNING_VAR);
    tc_attr_set_int(node, "training_mode", 1);
    tc_node_resize_outputs(node, TC_COUNT(results));
    for (uint32_t i = 1; i < TC_COUNT(results); i++)
        if (!node->outputs[i])
            tc_node_add_output(node, i, tc_arena_printf(r->arena, "%s_%s", node->outputs[0]->name, results[i]),
                               tc_input(node, RUNNING_MEAN)->type);
}

/* A second use of a norm reads the statistics that the first one updated; in the file this is an Identity of them. */
static bool reads_statistic(tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index);
    while (value && value->producer && tc_node_is(value->producer, "", "Identity"))
        value = tc_input(value->producer, 0);
    if (!value || !(value->init || value->is_input))
        return false;
    tc_node_set_input(node, index, value);
    return true;
}

static void restore_norm(norms *s, const tc_torch_call *call, tc_node *node) {
    bool tracks = reads_statistic(node, RUNNING_MEAN) && reads_statistic(node, RUNNING_VAR);
    tracks = tracks || (gives_statistics(call) && tc_input(node, RUNNING_MEAN) && tc_input(node, RUNNING_VAR));
    restore_plain(s->r, call, node, WEIGHT, 1);
    restore_plain(s->r, call, node, BIAS, 0);
    bool can_train = node->n_outputs <= OUTPUTS; /* older ones with more are training */
    if (!is_training(call) || !tracks || !can_train || tc_attr_int(node, "training_mode", 0))
        return;
    restore_mode(s->r, call, node);
    s->restored[s->n_restored++] = name_of(s->r, call, node);
}

static void look_for_folded(norms *s, const tc_restore_call *entry) {
    for (size_t i = 0; i < TC_COUNT(folders); i++) {
        const tc_node *node = tc_restore_node(entry, folders[i]);
        if (!node)
            continue;
        s->at = s->at ? s->at : node;
        s->folded[s->n_folded++] = name_of(s->r, &entry->call, node);
        return;
    }
}

static tc_status refuse_folded(const norms *s) {
    tc_ctx *ctx = s->r->env->ctx;
    const char *text =
        tc_arena_printf(ctx->arena,
                        "the exporter folded BatchNormalization of %s, which was in training mode, into the "
                        "operator before it, as for inference: the file lacks its parameters and the "
                        "statistics of the batch",
                        tc_quote_list(ctx, s->folded, s->n_folded));
    return tc_restore_refuse(s->r, s->at, text, "export with optimize=False");
}

tc_status tc_restore_batch_norm(tc_restore *r) {
    norms s = {.r = r,
               .restored = TC_NEW_ARRAY(r->arena, const char *, r->n + 1),
               .folded = TC_NEW_ARRAY(r->arena, const char *, r->n + 1)};
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        if (!tc_is_batch_norm_call(call))
            continue;
        tc_node *node = tc_restore_node(&r->calls[i], "BatchNormalization");
        if (node)
            restore_norm(&s, call, node);
        else if (is_training(call))
            look_for_folded(&s, &r->calls[i]);
    }
    if (s.n_restored)
        tc_note(r->env->ctx, NULL, "BatchNormalization of %s is in training mode again, as in PyTorch",
                tc_quote_list(r->env->ctx, s.restored, s.n_restored));
    return s.n_folded ? refuse_folded(&s) : TC_OK;
}
