/* resolve_shapes.c: from the shapes of bound inputs to static shapes of every value of a plan's model. Symbols in the
 * declared types ("batch") take the sizes that the inputs have; branches and loops whose course is known become plain
 * nodes. Where values decide shapes (a Reshape target that is an input, the limits of a Range), the caller names inputs
 * whose elements shape inference gets as well: prepare.c finds these. */
#include "session.h"
#include "compiler/contents/contents.h"
#include "compiler/shape/shape.h"
#include "compiler/inline/inline.h"

typedef struct binding {
    const char *input;
    int64_t size;
} binding;

static bool is_symbol(tc_dim dim) { return !tc_dim_is_const(dim) && !tc_dim_is_unknown(dim); }

static const tc_type *bound_type(tc_model *model, const rt_input *input) {
    return tc_type_tensor_static(model, (tc_dtype)input->dtype, input->rank, input->dims);
}

static tc_status wrong_type(tempo_session *s, tc_model *model, const rt_input *input) {
    return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' is %s, but the model takes %s",
                    tc_quote(&s->ctx, input->value->name), tc_type_text(s->ctx.arena, bound_type(model, input)),
                    tc_type_text(s->ctx.arena, input->declared));
}

/* One dim of one input against its declaration; symbols are collected in `symbols`. */
static tc_status match_dim(tempo_session *s, tc_model *model, const rt_input *input, int axis, tc_map *symbols) {
    tc_dim dim = input->declared->dims[axis];
    int64_t size = input->dims[axis];
    if (tc_dim_is_const(dim) && dim.value != size) {
        tc_status status = wrong_type(s, model, input);
        if (axis == 0)
            tc_hint(&s->ctx, "if that is the batch, --dim batch=%lld compiles the model for it", (long long)size);
        return status;
    }
    if (!is_symbol(dim))
        return TC_OK;
    const char *symbol = tc_dim_text(s->ctx.arena, dim);
    const binding *known = tc_map_get(symbols, symbol);
    if (known && known->size != size)
        return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "dimension '%s' is %lld in input '%s', but %lld in input '%s'",
                        symbol, (long long)known->size, tc_quote(&s->ctx, known->input), (long long)size,
                        tc_quote(&s->ctx, input->value->name));
    binding *b = TC_NEW(s->ctx.arena, binding);
    *b = (binding){input->value->name, size};
    tc_map_set(symbols, symbol, b);
    return TC_OK;
}

static tc_status match_input(tempo_session *s, const rt_input *input, tc_value *value, tc_map *symbols) {
    tc_model *model = value->graph->model;
    const tc_type *declared = input->declared;
    if (declared && declared->kind == TC_TENSOR && declared->rank != TC_RANK_UNKNOWN) {
        if (declared->rank != input->rank)
            return wrong_type(s, model, input);
        for (int axis = 0; axis < input->rank; axis++)
            TC_TRY(match_dim(s, model, input, axis, symbols));
    }
    value->type = bound_type(model, input);
    return TC_OK;
}

static tc_status match_default(tempo_session *s, const rt_input *input, tc_value *value) {
    const tc_tensor *init = value->init;
    if (!init) {
        tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' (%s) is missing, and has no default",
                 tc_quote(&s->ctx, value->name), tc_type_text(s->ctx.arena, input->declared));
        return TC_BAD_INPUT;
    }
    value->type = tc_type_tensor_static(value->graph->model, init->dtype, init->rank, init->dims);
    return TC_OK;
}

/* The elements of a small input, for shape inference; also of a default, which is no constant since a caller may
 * replace it. */
static const tc_contents *contents_of(tc_model *model, const rt_input *input) {
    const tc_tensor *init = input->value->init;
    if (!input->data)
        return init && init->data ? tc_contents_of_tensor(model, init) : NULL;
    return tc_contents_of_tensor(
        model, tc_tensor_create(model, (tc_dtype)input->dtype, input->rank, input->dims, input->data));
}

static tc_status give_inputs(tempo_session *s, tc_model *model, const bool *decides) {
    tc_graph *graph = model->graph;
    tc_map *symbols = tc_map_create(s->ctx.arena);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TC_TRY(s->inputs[i].data ? match_input(s, &s->inputs[i], graph->inputs[i], symbols)
                                 : match_default(s, &s->inputs[i], graph->inputs[i]));
    size_t cursor = 0;
    const void *symbol;
    void *found;
    while (tc_map_next(symbols, &cursor, &symbol, &found))
        tc_substitute_symbol(graph, symbol, ((const binding *)found)->size);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        graph->inputs[i]->contents = decides[i] ? contents_of(model, &s->inputs[i]) : NULL;
    return TC_OK;
}

static bool all_static(const tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i] && (i == 0 || tc_value_is_used(node->outputs[i])) &&
                !tc_type_is_static(node->outputs[i]->type))
                return false;
    }
    return true;
}

tc_status rt_resolve_shapes(tempo_session *s, tc_model *model, const bool *decides, bool *out_static) {
    bool unrolled = false, inlined = false;
    TC_TRY(give_inputs(s, model, decides));
    TC_TRY(tc_infer_unrolled(&s->ctx, model->graph, &unrolled));
    TC_TRY(rt_inline_missing(s, model, true, &inlined));
    if (unrolled || inlined) {
        tc_forget_shapes(model->graph);
        TC_TRY(give_inputs(s, model, decides));
        TC_TRY(tc_infer_graph(&s->ctx, model->graph));
    }
    *out_static = all_static(model->graph);
    return TC_OK;
}
