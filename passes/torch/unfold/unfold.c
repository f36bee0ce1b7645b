/* unfold.c: turns initializers that the dynamo exporter computed from parameters (optimize=True) back into the
 * parameters, and adds nodes for the computation. Trained as in the file, a class token that was expanded to a batch
 * of two would become two tokens, and the logarithm of a scale would be trained as the scale.
 * An initializer that holds the parameter's own elements stays, whatever its layout, because its gradient is the
 * parameter's. So does a part of a table that has each row once. A computation that cannot be undone stops the
 * compilation, unless the loss does not depend on it or the command line names it: silently training the initializer
 * would differ from PyTorch. If the weights are missing (only the file was given), their names decide. */
#include "passes/weights/weights.h"
#include "unfold.h"
#include "compiler/shape/shape.h"
#include <string.h>

void tc_unfold_tell(const tc_unfold *u, tc_findings *to, const char *text) {
    if (to->n++ < TC_LIST_FEW)
        to->text = tc_arena_printf(u->env->ctx->arena, "%s%s%s", to->text ? to->text : "", to->text ? ", " : "", text);
}

const char *tc_unfold_list(const tc_unfold *u, const tc_findings *from) {
    return from->n > TC_LIST_FEW
               ? tc_arena_printf(u->env->ctx->arena, "%s and %zu more", from->text, from->n - TC_LIST_FEW)
               : from->text;
}

void tc_unfold_tell_lost(tc_unfold *u, const char *name, const char *text) {
    tc_unfold_tell(u, &u->lost, text);
    if (!u->first_lost)
        u->first_lost = name;
}

void tc_unfold_refuse(tc_unfold *u, const tc_standin *s, const char *why) {
    const char *from = tc_quote(u->env->ctx, s->fold.parameters[0]->target);
    if (s->fold.n_parameters > 1)
        from = tc_arena_printf(u->scratch, "%s and %zu more", from, s->fold.n_parameters - 1);
    tc_unfold_tell_lost(
        u, s->value->name,
        tc_arena_printf(u->scratch, "%s, made from %s (%s)", tc_quote(u->env->ctx, s->value->name), from, why));
}

/* --- nodes that replace an initializer -------------------------------------------------------- */
tc_value *tc_unfold_add_node(const tc_unfold *u, const char *op, tc_value *x, tc_value *y, const tc_type *type) {
    tc_node *node = tc_node_create(u->graph, "", op, y ? 2 : 1, 1);
    tc_node_set_input(node, 0, x);
    if (y)
        tc_node_set_input(node, 1, y);
    tc_value *result = tc_node_add_output(node, 0, tc_arena_printf(u->scratch, "%s_%s", x->name, op), type);
    node->name = result->name;
    return result;
}

tc_value *tc_unfold_parameter_of(const tc_unfold *u, const char *target) {
    tc_value *value = tc_map_get(u->graph->names, target);
    return value && value->init && value->learned == TC_LEARNED_YES ? value : NULL;
}

tc_value *tc_unfold_make_parameter(const tc_unfold *u, const char *target, tc_tensor *tensor) {
    tc_value *value = tc_constant(u->graph, target, tensor);
    tensor->name = value->name;
    value->learned = TC_LEARNED_YES;
    tc_record_initializer(u->env, tc_arena_strdup(u->env->ctx->arena, value->name), tensor);
    return value;
}

tc_node *tc_unfold_insert_first(const tc_unfold *u, const tc_value *now) {
    tc_node *where = u->graph->first;
    for (; now && now->producer; now = tc_input(where, 0)) {
        tc_node_insert_before(now->producer, where);
        where = now->producer;
    }
    return where;
}

void tc_unfold_put_in_place(tc_unfold *u, const tc_standin *s, tc_value *now) {
    const char *name = s->value->name;
    tc_unfold_insert_first(u, now);
    tc_record_initializer(u->env, name, NULL);
    tc_value_replace(s->value, now);
    tc_graph_remove_initializer(u->graph, s->value);
    if (now->producer)
        tc_value_rename(now, name);
}

/* --- the pass --------------------------------------------------------------------------------- */
/* Whether no other initializer came from its parameter. */
static bool is_alone(const tc_unfold *u, const tc_standin *s) {
    return !tc_unfold_parameter_of(u, s->target) && s->first == s && !s->next;
}

/* A subset of the elements, which ones is not known: trained as it is if no other initializer holds elements of the
 * parameter. */
static void keep_slice(tc_unfold *u, const tc_standin *s) {
    if (!is_alone(u, s))
        return tc_unfold_refuse(u, s, "the file has other parts of it, too");
    tc_torch_set_name(u->env, s->value->name, s->target, TC_TORCH_ROWS);
    tc_unfold_tell(u, &u->parts,
                   tc_arena_printf(u->scratch, "%s (as %s)", tc_quote(u->env->ctx, s->target),
                                   tc_quote(u->env->ctx, s->value->name)));
}

static void keep_shifted(tc_unfold *u, const tc_standin *s) {
    if (!is_alone(u, s))
        return tc_unfold_refuse(u, s, "the file has the parameter, too, or another result computed from it");
    tc_torch_set_name(u->env, s->value->name, s->target, TC_TORCH_SHIFTED);
    tc_unfold_tell(u, &u->shifted,
                   tc_arena_printf(u->scratch, "%s for %s", tc_quote(u->env->ctx, s->value->name),
                                   tc_quote(u->env->ctx, s->target)));
}

static void unfold_one(tc_unfold *u, const tc_standin *s) {
    if (tc_unfold_bias_alone(u, s))
        return;
    if (!s->target)
        return tc_unfold_refuse(u, s, "computed from several parameters");
    if (!s->fold.known)
        return tc_unfold_refuse(u, s, "the file does not say how");
    if (s->fold.shifted)
        keep_shifted(u, s);
    else if (s->fold.stopped)
        s->value->learned = TC_LEARNED_NO;
    else if (s->fold.rows)
        tc_unfold_rows(u, s);
    else if (s->fold.part && (s->fold.n_functions || s->fold.spread))
        tc_unfold_refuse(u, s, "computed from a part of it");
    else if (s->fold.part)
        keep_slice(u, s);
    else if (s->fold.n_functions || s->fold.spread)
        tc_unfold_repeated(u, s);
    else
        tc_torch_set_name(u->env, s->value->name, s->target, s->fold.layout);
}

static void link_standins(tc_unfold *u) {
    tc_map *last = tc_map_create(u->scratch); /* of the parameters with a target */
    for (size_t i = 0; i < u->n; i++) {
        tc_standin *s = &u->standins[i], *before = s->target ? tc_map_get(last, s->target) : NULL;
        s->first = before ? before->first : s;
        if (before)
            before->next = s;
        if (s->target)
            tc_map_set(last, s->target, s);
    }
}

static tc_status find_standins(tc_unfold *u, const tc_torch_signature *signature, const tc_value *loss) {
    tc_flow flow;
    TC_TRY(tc_trainable_preview(u->env, u->graph, loss, &flow));
    u->standins = TC_NEW_ARRAY(u->scratch, tc_standin, u->graph->n_initializers + 1);
    for (uint32_t i = 0; i < u->graph->n_initializers; i++) {
        tc_value *value = u->graph->initializers[i];
        bool counts = value->learned == TC_LEARNED_YES && tc_flow_has(&flow, value, TC_FLOW_REACHES) &&
                      tc_torch_kind_of(signature, value) == TC_TORCH_UNKNOWN;
        if (!counts || value->is_input || value->n_graph_outputs || tc_is_asked_as_stored(u->env, value->name))
            continue;
        tc_standin *s = &u->standins[u->n];
        s->fold = tc_torch_fold_of(u->scratch, signature, value);
        s->value = value;
        s->data = tc_tensor_peek(u->graph->model, value->init);
        s->target = s->fold.n_parameters == 1 ? s->fold.parameters[0]->target : NULL;
        if (s->fold.rows && value->init->rank > 0 && value->init->count > 0)
            tc_unfold_find_axis(u, s);
        else
            s->fold.known = s->fold.known && !s->fold.rows;
        u->n += s->fold.n_parameters > 0;
    }
    link_standins(u);
    tc_unfold_find_lost(u, signature, &flow, loss);
    return TC_OK;
}

static tc_status report(const tc_unfold *u) {
    tc_ctx *ctx = u->env->ctx;
    if (u->undone.n)
        tc_note(ctx, NULL,
                "the exporter stored results computed from parameters; the parameters themselves "
                "are trained: %s",
                tc_unfold_list(u, &u->undone));
    if (u->parts.n)
        tc_note(ctx, NULL, "the file has only a part of these parameters, which is trained: %s",
                tc_unfold_list(u, &u->parts));
    if (u->shifted.n)
        tc_note(ctx, NULL,
                "the file has these parameters plus a number; the sum is trained, with the same gradients, "
                "but another weight decay: %s",
                tc_unfold_list(u, &u->shifted));
    if (u->biases.n)
        tc_note(ctx, NULL, "biases that the exporter omitted because they were zero are trained: %s",
                tc_unfold_list(u, &u->biases));
    if (u->projected) {
        tc_error(ctx, TC_UNSUPPORTED, u->projected,
                 "the exporter omitted the projection (proj_size) of PyTorch's layer: the file does not "
                 "compute the same as PyTorch");
        tc_hint(ctx, "ONNX has no such layer: write it with LSTMCell and Linear, step by step");
        return TC_UNSUPPORTED;
    }
    if (!u->lost.n)
        return TC_OK;
    tc_error(ctx, TC_UNSUPPORTED, NULL,
             "the file has only results that the exporter computed from parameters; PyTorch trains the "
             "parameters: %s",
             tc_unfold_list(u, &u->lost));
    tc_hint(ctx, "export with optimize=False; or --train=%s trains the copy as it is, --freeze=%s does not",
            tc_quote(u->env->ctx, u->first_lost), tc_quote(u->env->ctx, u->first_lost));
    return TC_UNSUPPORTED;
}

static tc_status unfold_all(tc_unfold *u, const tc_value *loss) {
    const tc_torch_signature *signature = tc_torch_signature_read(u->scratch, u->graph);
    if (!signature)
        return TC_OK;
    tc_unfold_biases(u, signature);
    tc_unfold_recurrent(u, signature);
    TC_TRY(find_standins(u, signature, loss));
    for (size_t i = 0; i < u->n; i++)
        unfold_one(u, &u->standins[i]);
    return report(u);
}

tc_status tc_pass_unfold(tc_pass_env *env, tc_model *model) {
    tc_unfold u = {.env = env, .graph = model->graph};
    const tc_value *loss = tc_unambiguous_loss(env->options, model->graph);
    if (!loss)
        return TC_OK;
    u.scratch = tc_arena_create();
    tc_status status = unfold_all(&u, loss);
    tc_arena_destroy(u.scratch);
    return status;
}
