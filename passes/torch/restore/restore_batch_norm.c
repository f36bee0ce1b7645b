/* restore_batch_norm.c: BatchNormalization of a model in training mode, which the dynamo exporter writes in
 * inference mode. The call shows it: `_native_batch_norm_legit_functional(%x, %weight, %bias, %running_mean,
 * %running_var, True, 0.1, 1e-05)`. If the exporter's optimizer folded such a node into the operator before it,
 * scale, bias and the statistics of the batch are lost.
 * For a norm without running statistics the exporter computes those of the batch in the graph; these stay.
 * A norm of a model in inference mode stays in it, with a note, unless --restore-batch-norm asks for training mode: in
 * files of all exporters. Folded ones are named: TorchScript's exporter leaves names that it made up for both operands
 * of the convolution ("onnx::Conv_32"). */
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
    const char **restored, **folded, **stay; /* names in PyTorch; `stay` in inference mode */
    size_t n_restored, n_folded, n_stay;
    size_t n;             /* norms that the file has */
    const tc_node *at;    /* the first op that a norm was folded into */
    bool folded_training; /* one of these was in training mode */
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
    if (!dot && *tc_script_module(r->arena, node))
        return tc_script_module(r->arena, node);
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

/* TorchScript's exporter, too: its Identity bears the name of the statistic, which becomes an initializer. */
static void part_statistic(const tc_restore *r, const tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index);
    tc_node *identity =
        value && value->producer && tc_node_is(value->producer, "", "Identity") ? value->producer : NULL;
    const tc_value *from = identity ? tc_input(identity, 0) : NULL;
    if (!from || !from->init || from->is_input || value->n_graph_outputs)
        return;
    tc_tensor *copy = TC_NEW(r->graph->model->arena, tc_tensor);
    *copy = *from->init;
    copy->origin = NULL;
    copy->name = value->name;
    (void)tc_node_take_output(identity, 0);
    tc_node_erase(identity);
    tc_graph_add_initializer(r->graph, value, copy);
    value->learned = TC_LEARNED_NO;
}

/* Until opset 14 more results than one meant training. */
static void restore_mode(const tc_restore *r, const tc_torch_call *call, tc_node *node) {
    static const char *const results[OUTPUTS] = {NULL, "running_mean", "running_var"};
    restore_statistic(r, call, node, RUNNING_MEAN);
    restore_statistic(r, call, node, RUNNING_VAR);
    if (tc_model_opset(r->graph->model, "") >= 14)
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

static bool trains(const tc_node *node) {
    bool since_14 = tc_model_opset(node->graph->model, "") >= 14;
    return since_14 ? tc_attr_int(node, "training_mode", 0) != 0 : tc_output(node, 1) || tc_output(node, 2);
}

static void restore_norm(norms *s, const tc_torch_call *call, tc_node *node) {
    bool tracks = reads_statistic(node, RUNNING_MEAN) && reads_statistic(node, RUNNING_VAR);
    tracks = tracks || (gives_statistics(call) && tc_input(node, RUNNING_MEAN) && tc_input(node, RUNNING_VAR));
    restore_plain(s->r, call, node, WEIGHT, 1);
    restore_plain(s->r, call, node, BIAS, 0);
    s->n++;
    if (node->n_outputs > OUTPUTS || trains(node)) /* older ones with more results are training */
        return;
    const char *name = name_of(s->r, call, node);
    if (tracks && (is_training(call) || s->r->env->options->restore_batch_norm)) {
        restore_mode(s->r, call, node);
        s->restored[s->n_restored++] = name;
    } else {
        s->stay[s->n_stay++] = name;
    }
}

static void restore_without_call(norms *s, tc_node *node) {
    static const tc_torch_call none = {.result = "", .target = ""};
    if (s->r->env->options->restore_batch_norm) {
        part_statistic(s->r, node, RUNNING_MEAN);
        part_statistic(s->r, node, RUNNING_VAR);
    }
    restore_norm(s, &none, node);
}

static void add_folded(norms *s, const tc_torch_call *call, const tc_node *node) {
    s->at = s->at ? s->at : node;
    s->folded_training |= is_training(call);
    s->folded[s->n_folded++] = name_of(s->r, call, node);
}

static void look_for_folded(norms *s, const tc_restore_call *entry) {
    for (size_t i = 0; i < TC_COUNT(folders); i++) {
        const tc_node *node = tc_restore_node(entry, folders[i]);
        if (!node)
            continue;
        add_folded(s, &entry->call, node);
        return;
    }
}

/* TorchScript's exporter made up both names. */
static bool is_folded_by_script(const tc_restore *r, const tc_node *node) {
    const char *producer = r->graph->model->info.producer_name;
    bool made_up = producer && strcmp(producer, "pytorch") == 0 && node->n_inputs == 3;
    for (uint32_t i = 1; made_up && i < node->n_inputs; i++)
        made_up =
            tc_input(node, i) && tc_input(node, i)->init && strncmp(tc_input(node, i)->name, "onnx::Conv", 10) == 0;
    return made_up && (tc_node_is(node, "", "Conv") || tc_node_is(node, "", "ConvTranspose"));
}

static void look_without_calls(norms *s) {
    static const tc_torch_call none = {.result = "", .target = ""};
    tc_torch_call call;
    TC_FOR_NODES(node, s->r->graph) {
        bool norm = tc_node_is(node, "", "BatchNormalization") && tc_input(node, 0) && tc_output(node, 0);
        if (norm && !(tc_torch_call_read(s->r->arena, node, &call) && tc_is_batch_norm_call(&call)))
            restore_without_call(s, node);
        else if (is_folded_by_script(s->r, node))
            add_folded(s, &none, node);
    }
}

/* --- messages ------------------------------------------------------------------------------------------ */

/* Names of norms, or of the convolutions where TorchScript's exporter kept no others. */
static tc_status tell_folded(const norms *s) {
    tc_ctx *ctx = s->r->env->ctx;
    const char *names = tc_quote_list(ctx, s->folded, s->n_folded);
    const char *which = s->r->n ? tc_arena_printf(ctx->arena, "of %s%s into the operator before it", names,
                                                  s->folded_training ? ", which was in training mode," : "")
                                : tc_arena_printf(ctx->arena, "into the weights of %s", names);
    const char *text = tc_arena_printf(ctx->arena,
                                       "the exporter folded BatchNormalization %s, as for inference: the file lacks "
                                       "its parameters and the statistics of the batch",
                                       which);
    if (s->folded_training || (s->r->env->options->restore_batch_norm && s->n == 0))
        return tc_restore_refuse(s->r, s->at, text,
                                 "export with optimize=False, or with training=TrainingMode.PRESERVE where "
                                 "dynamo=False");
    if (s->r->trains && (!s->r->n || s->r->env->options->add_loss)) /* else `unfold` refuses it */
        tc_note(ctx, NULL, "%s; the weights that it was folded into are trained", text);
    return TC_OK;
}

static tc_status tell(const norms *s) {
    tc_ctx *ctx = s->r->env->ctx;
    bool asked = s->r->env->options->restore_batch_norm;
    if (s->n_restored)
        tc_note(ctx, NULL, "BatchNormalization of %s is in training mode%s",
                tc_quote_list(ctx, s->restored, s->n_restored), asked ? "" : " again, as in PyTorch");
    if (s->n_stay && s->r->trains) {
        tc_note(ctx, NULL,
                "BatchNormalization of %s is in inference mode: it uses its running statistics, as after "
                "model.eval() in PyTorch",
                tc_quote_list(ctx, s->stay, s->n_stay));
        tc_hint(ctx, asked ? "its statistics are computed in the graph"
                           : "--restore-batch-norm trains with the statistics of the batch");
    }
    if (s->n_folded)
        return tell_folded(s);
    return asked && s->n == 0
               ? tc_restore_refuse(s->r, NULL, "--restore-batch-norm: the file has no BatchNormalization",
                                   "compile without it; if PyTorch's model has one, export it with optimize=False, or "
                                   "with training=TrainingMode.PRESERVE where dynamo=False")
               : TC_OK;
}

tc_status tc_restore_batch_norm(tc_restore *r) {
    size_t most = r->graph->n_nodes + (size_t)1;
    norms s = {.r = r,
               .restored = TC_NEW_ARRAY(r->arena, const char *, most),
               .folded = TC_NEW_ARRAY(r->arena, const char *, most),
               .stay = TC_NEW_ARRAY(r->arena, const char *, most)};
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        if (!tc_is_batch_norm_call(call))
            continue;
        tc_node *node = tc_restore_node(&r->calls[i], "BatchNormalization");
        if (node)
            restore_norm(&s, call, node);
        else
            look_for_folded(&s, &r->calls[i]);
    }
    look_without_calls(&s);
    return tell(&s);
}
