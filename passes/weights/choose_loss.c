/* choose_loss.c: chooses the output that is the loss: by --loss, else by marks and gradient ops of the file, else by
 * the look of the graph. */
#include "choose_loss.h"
#include "added_loss.h"
#include "compiler/memory/memory.h"
#include <string.h>

/* --- graphs without a backward pass ----------------------------------------------------------- */
const char *tc_list_typed(tc_ctx *ctx, tc_value *const *values, size_t n) {
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = tc_arena_printf(ctx->arena, "%s%s%s %s", text, i ? ", " : "", tc_quote(ctx, values[i]->name),
                               tc_type_text(ctx->arena, values[i]->type));
    return text;
}

/* The scalar floats among the outputs, or all outputs. */
static const char *list_candidates(tc_ctx *ctx, const tc_graph *graph, bool scalar_only) {
    tc_value **listed = TC_NEW_ARRAY(ctx->arena, tc_value *, (size_t)graph->n_outputs + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (!scalar_only || tc_is_scalar_float(graph->outputs[i]))
            listed[n++] = graph->outputs[i];
    return tc_list_typed(ctx, listed, n);
}

static tc_status find_named(tc_ctx *ctx, const tc_graph *graph, const char *name, tc_value **out_value) {
    *out_value = tc_graph_output(graph, name);
    if (*out_value)
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--loss: the graph has no output named '%s'", tc_quote(ctx, name));
    tc_hint(ctx, "its outputs are: %s", list_candidates(ctx, graph, false));
    return TC_USAGE;
}

static tc_status named_loss(tc_ctx *ctx, const tc_graph *graph, const char *name, tc_value **out_loss) {
    TC_TRY(find_named(ctx, graph, name, out_loss));
    if (tc_is_scalar_float(*out_loss))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--loss: %s is %s, expected one float number ([] or [1])", tc_quote(ctx, name),
             tc_type_text(ctx->arena, (*out_loss)->type));
    tc_hint(ctx, "reduce it in the model, by ReduceMean for instance");
    return TC_USAGE;
}

tc_status tc_choose_loss(tc_pass_env *env, const tc_graph *graph, tc_value **out_loss) {
    tc_ctx *ctx = env->ctx;
    uint32_t n = 0;
    if (env->options->loss)
        return named_loss(ctx, graph, env->options->loss, out_loss);
    if (env->options->add_loss && (*out_loss = tc_marked_loss(graph)))
        return TC_OK;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        if (tc_is_scalar_float(graph->outputs[i])) {
            *out_loss = graph->outputs[i];
            n++;
        }
    }
    if (n == 1)
        return TC_OK;
    if (n == 0) {
        tc_error(ctx, TC_USAGE, NULL, "no output is a loss: expected one float number ([] or [1])");
        const char *kind = tc_added_loss_advice(ctx, graph);
        tc_hint(ctx,
                "the outputs are: %s; %s%s%sexport the model with its loss (docs/howto/exporting.md), or compile it "
                "without a backward pass by --recipe=forward",
                list_candidates(ctx, graph, false), kind ? "give it one by --add-loss=" : "", kind ? kind : "",
                kind ? ", or " : "");
    } else {
        tc_error(ctx, TC_USAGE, NULL, "%u outputs could be the loss: %s", (unsigned)n,
                 list_candidates(ctx, graph, true));
        tc_hint(ctx, "name one: --loss=NAME");
    }
    return TC_USAGE;
}

tc_value *tc_unambiguous_loss(const tc_options *options, const tc_graph *graph) {
    tc_value *loss = NULL;
    if (tc_has_backward(graph, tc_names_loss(options)))
        return NULL;
    if (options->add_loss)
        return (loss = tc_marked_loss(graph)) ? loss : tc_added_loss_known(options, graph);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        tc_value *value = graph->outputs[i];
        if (!tc_is_scalar_float(value) || (options->loss && strcmp(value->name, options->loss) != 0))
            continue;
        if (loss)
            return NULL;
        loss = value;
    }
    return loss;
}

/* --- graphs with a backward pass -------------------------------------------------------------- */
static bool is_backward(tc_role role) { return role == TC_ROLE_BACKWARD || role == TC_ROLE_GRADIENT; }

/* Reports the outputs that look like gradients. `named`: the user gave --loss. */
static void tell_inferred(tc_ctx *ctx, const tc_graph *graph, const tc_roles *roles, bool named) {
    const char **names = TC_NEW_ARRAY(ctx->arena, const char *, (size_t)graph->n_outputs + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (roles->outputs[i] == TC_ROLE_GRADIENT)
            names[n++] = graph->outputs[i]->name;
    tc_note(ctx, NULL, "the graph seems to hold the backward pass of %s, with the gradient%s %s%s",
            tc_quote(ctx, roles->loss->name), n > 1 ? "s" : "", tc_quote_list(ctx, names, n),
            named ? "; --loss overrides this" : "");
    tc_hint(ctx, named ? "without --loss, no second backward pass is appended"
                       : "if it holds none, name the loss: --loss=NAME");
}

/* Gradient ops do not say which value they differentiate; --loss does. */
static void mark_named_loss(const tc_graph *graph, const tc_roles *roles, const char *name) {
    for (uint32_t i = 0; !tc_marked_loss(graph) && i < graph->n_outputs; i++) {
        tc_value *value = graph->outputs[i];
        if (strcmp(value->name, name) == 0 && !is_backward(roles->outputs[i]) &&
            tc_dtype_is_float(tc_value_dtype(value)))
            value->role = TC_ROLE_LOSS;
    }
}

void tc_settle_loss(tc_pass_env *env, tc_graph *graph) {
    const char *name = env->options->loss;
    tc_arena *scratch = tc_arena_create();
    tc_roles roles;
    tc_roles_find(scratch, graph, &roles);
    if (roles.inferred)
        tell_inferred(env->ctx, graph, &roles, name != NULL);
    else if (roles.loss && name)
        mark_named_loss(graph, &roles, name);
    if (!roles.inferred || !name)
        tc_roles_settle(graph);
    tc_arena_destroy(scratch);
}

const tc_value *tc_made_loss(const tc_options *options, const tc_graph *graph) {
    const tc_value *loss = options->loss ? tc_graph_find(graph, options->loss) : tc_find_loss(graph);
    return loss && loss->producer && loss->graph == graph ? loss : NULL;
}

tc_status tc_check_loss(tc_pass_env *env, const tc_graph *graph) {
    tc_ctx *ctx = env->ctx;
    const char *name = env->options->loss;
    tc_value *value;
    if (!name)
        return TC_OK;
    TC_TRY(find_named(ctx, graph, name, &value));
    if (value->role == TC_ROLE_LOSS)
        return TC_OK;
    const tc_value *loss = tc_find_loss(graph);
    tc_error(ctx, TC_USAGE, NULL, "--loss: the graph already holds a backward pass, and %s is not its loss",
             tc_quote(ctx, name));
    tc_hint(ctx, "%s%s; for another loss, compile the model without its backward pass",
            loss ? "its loss is " : "its loss is not known", loss ? tc_quote(ctx, loss->name) : "");
    return TC_USAGE;
}
