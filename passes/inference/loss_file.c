/* loss_file.c: a loss of the user's own, a graph in ONNX text: brought to our opset, it becomes a function of the
 * model, which is called once and inlined. */
#include "add_loss.h"
#include "compiler/memory/memory.h"
#include "compiler/text/text.h"
#include <string.h>

static tc_status refuse(const tc_adding *a, const char *why, const char *name, const tc_type *type) {
    tc_error(a->env->ctx, TC_BAD_INPUT, NULL, "--add-loss: %s: %s '%s' %s", tc_quote(a->env->ctx, a->of.word), why,
             tc_quote(a->env->ctx, name), tc_type_text(a->env->ctx->arena, type));
    return TC_BAD_INPUT;
}

/* --- types ------------------------------------------------------------------------------------ */

/* Notes the symbols of an input that is `value` of the graph. */
static bool bind(tc_map *symbols, tc_arena *arena, const tc_type *type, const tc_value *value) {
    if (!type || type->kind != TC_TENSOR || type->dtype != tc_value_dtype(value))
        return false;
    for (int i = 0; type->rank == tc_value_rank(value) && i < type->rank; i++) {
        const tc_dim dim = type->dims[i], *known = &value->type->dims[i];
        if (!tc_dim_is_const(dim) && !tc_dim_is_unknown(dim))
            tc_map_set(symbols, tc_dim_text(arena, dim), (void *)(uintptr_t)known);
        else if (tc_dim_is_const(dim) && tc_dim_is_const(*known) && dim.value != known->value)
            return false;
    }
    return type->rank == TC_RANK_UNKNOWN || type->rank == tc_value_rank(value);
}

/* The type with the graph's sizes for the symbols. */
static const tc_type *type_here(const tc_adding *a, const tc_map *symbols, const tc_type *type) {
    tc_dim dims[TC_MAX_RANK];
    tc_arena *arena = a->env->ctx->arena;
    for (int i = 0; i < type->rank; i++) {
        const char *text = tc_dim_text(arena, type->dims[i]);
        const tc_dim *known = tc_map_get(symbols, text);
        bool own = !tc_dim_is_const(type->dims[i]) && !tc_dim_is_unknown(type->dims[i]);
        dims[i] = known ? *known : own ? tc_dim_symbol(a->graph->model->dims, text) : type->dims[i];
    }
    return tc_type_tensor(a->graph->model, type->dtype, type->rank, type->rank < 0 ? NULL : dims);
}

/* --- the call --------------------------------------------------------------------------------- */

static tc_status find_operands(tc_adding *a, const tc_graph *own, tc_value **operands) {
    tc_arena *arena = a->env->ctx->arena;
    tc_map *symbols = tc_map_create(arena);
    bool any = false;
    for (uint32_t i = 0; i < own->n_inputs; i++)
        any |= (operands[i] = a->of.output ? NULL : tc_graph_output(a->graph, own->inputs[i]->name)) != NULL;
    if (!any && own->n_inputs > 0)
        TC_TRY(tc_added_loss_output(a->env->ctx, a->graph, &a->of, &operands[0]));
    for (uint32_t i = 0; i < own->n_inputs; i++)
        if (operands[i] && !bind(symbols, arena, own->inputs[i]->type, operands[i]))
            return refuse(a,
                          tc_arena_printf(arena, "its input '%s' is %s, but the output is",
                                          tc_quote(a->env->ctx, own->inputs[i]->name),
                                          tc_type_text(arena, own->inputs[i]->type)),
                          operands[i]->name, operands[i]->type);
    for (uint32_t i = 0; i < own->n_inputs; i++) {
        const tc_value *input = own->inputs[i];
        if (operands[i])
            continue;
        if (!input->type || input->type->kind != TC_TENSOR || input->type->rank == TC_RANK_UNKNOWN)
            return refuse(a, "an input needs a type with axes, but there is", input->name, input->type);
        TC_TRY(tc_adding_input(a, input->name, type_here(a, symbols, input->type), &operands[i]));
    }
    return TC_OK;
}

/* Functions have no initializers. */
static void make_constants(tc_graph *graph) {
    for (uint32_t i = graph->n_initializers; i-- > 0;) {
        tc_value *value = graph->initializers[i];
        tc_node *node = tc_node_create(graph, "", "Constant", 0, 1);
        tc_attr_set_tensor(node, "value", value->init);
        tc_value *result = tc_node_add_output(node, 0, value->name, value->type);
        if (graph->first)
            tc_node_insert_before(node, graph->first);
        else
            tc_node_append(node);
        tc_value_replace(value, result);
        tc_graph_remove_initializer(graph, value);
    }
}

static tc_status call(tc_adding *a, tc_model *own, tc_value **out_loss) {
    tc_ctx *ctx = a->env->ctx;
    tc_graph *body = own->graph;
    tc_value **operands = TC_NEW_ARRAY(ctx->arena, tc_value *, (size_t)body->n_inputs + 1);
    if (body->n_outputs != 1)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "--add-loss: %s: a loss has one output, this graph has %u",
                        tc_quote(ctx, a->of.word), (unsigned)body->n_outputs);
    TC_TRY(find_operands(a, body, operands));
    make_constants(body);
    tc_opset opset = {"", tc_model_opset(own, "")};
    const tc_function given = {
        .domain = "loss", .name = "Loss", .overload = "", .body = body, .opsets = &opset, .n_opsets = 1};
    tc_function *function;
    TC_TRY(tc_parse_function(ctx, a->graph->model, tc_function_text(ctx->arena, &given), a->of.word, &function));
    tc_node *node = tc_build_node(&a->g, "loss", "Loss", body->n_inputs, operands, 1);
    *out_loss = node->outputs[0];
    TC_TRY(tc_inline_call(ctx, node, function));
    TC_TRY(tc_infer_graph(ctx, a->graph));
    return tc_is_scalar_float(*out_loss)
               ? TC_OK
               : refuse(a, "the loss has to be one float number, but it is", body->outputs[0]->name, (*out_loss)->type);
}

/* Parsed, in our ops and typed. Messages name the file. */
static tc_status read_loss(tc_adding *a, const tc_file *file, tc_model **out_own) {
    tc_status (*const passes[])(tc_pass_env *, tc_model *) = {tc_pass_upgrade, tc_pass_inline, tc_pass_shapes};
    tc_ctx *ctx = a->env->ctx;
    const tc_options options = {0};
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = &summary};
    size_t n_diags = ctx->n_diags;
    tc_status status = tc_parse_text(ctx, file->data, file->size, a->of.word, out_own);
    for (size_t i = 0; status == TC_OK && i < TC_COUNT(passes); i++)
        status = passes[i](&env, *out_own);
    for (size_t i = n_diags; i < ctx->n_diags; i++)
        ctx->diags[i].where = ctx->diags[i].where ? ctx->diags[i].where : tc_quote(ctx, a->of.word);
    return status;
}

tc_status tc_loss_of_file(tc_adding *a, tc_value **out_loss) {
    tc_file file;
    tc_held held;
    tc_model *own = NULL;
    TC_TRY(tc_file_open(a->env->ctx, a->of.word, &file));
    tc_file_hold(&file, &held);
    tc_status status = read_loss(a, &file, &own);
    if (status == TC_OK)
        status = call(a, own, out_loss);
    tc_let_go(&held);
    tc_model_destroy(own);
    tc_file_close(&file);
    return status;
}
