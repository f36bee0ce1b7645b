/* resolve_shapes.c: from the shapes of bound inputs to static shapes of every value. Symbols in the declared types
 * ("batch") take the sizes that the inputs have. Where values decide shapes (a Reshape target that is an input, the
 * limits of a Range), the elements of small inputs are handed to shape inference as well, which makes the plan depend
 * on them. */
#include "session.h"
#include "../compiler/contents.h"
#include "../compiler/shape.h"
#include <stdlib.h>
#include <string.h>

typedef struct binding {
    const char *input;
    int64_t size;
} binding;

static bool is_symbol(tc_dim dim) { return !tc_dim_is_const(dim) && !tc_dim_is_unknown(dim); }

static const char *bound_type_text(tempo_session *s, const rt_input *input) {
    return tc_type_text(s->ctx.arena,
                        tc_type_tensor_static(s->model, (tc_dtype)input->dtype, input->rank, input->dims));
}

/* One dim of one input against its declaration; symbols are collected in `symbols`. */
static tc_status match_dim(tempo_session *s, const rt_input *input, int axis, tc_map *symbols) {
    tc_dim dim = input->declared->dims[axis];
    int64_t size = input->dims[axis];
    const char *name = tc_quote(&s->ctx, input->value->name);
    if (tc_dim_is_const(dim) && dim.value != size)
        return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' is %s, but the model takes %s", name,
                        bound_type_text(s, input), tc_type_text(s->ctx.arena, input->declared));
    if (!is_symbol(dim))
        return TC_OK;
    const char *symbol = tc_dim_text(s->ctx.arena, dim);
    const binding *known = tc_map_get(symbols, symbol);
    if (known && known->size != size)
        return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "dimension '%s' is %lld in input '%s', but %lld in input '%s'",
                        symbol, (long long)known->size, known->input, (long long)size, name);
    binding *b = TC_NEW(s->ctx.arena, binding);
    *b = (binding){name, size};
    tc_map_set(symbols, symbol, b);
    return TC_OK;
}

static tc_status match_input(tempo_session *s, rt_input *input, tc_map *symbols) {
    const tc_type *declared = input->declared;
    if (declared && declared->kind == TC_TENSOR && declared->rank != TC_RANK_UNKNOWN) {
        if (declared->rank != input->rank)
            return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' is %s, but the model takes %s",
                            tc_quote(&s->ctx, input->value->name), bound_type_text(s, input),
                            tc_type_text(s->ctx.arena, declared));
        for (int axis = 0; axis < input->rank; axis++)
            TC_TRY(match_dim(s, input, axis, symbols));
    }
    input->value->type = tc_type_tensor_static(s->model, (tc_dtype)input->dtype, input->rank, input->dims);
    return TC_OK;
}

static tc_status match_default(tempo_session *s, rt_input *input) {
    const tc_tensor *init = input->value->init;
    if (!init) {
        tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' (%s) is missing, and has no default",
                 tc_quote(&s->ctx, input->value->name), tc_type_text(s->ctx.arena, input->declared));
        return TC_BAD_INPUT;
    }
    input->value->type = tc_type_tensor_static(s->model, init->dtype, init->rank, init->dims);
    return TC_OK;
}

/* The elements of a small input, for shape inference; also of a default, which is no constant since a caller may
 * replace it. */
static void hand_over_contents(tempo_session *s, rt_input *input) {
    const tc_tensor *init = input->value->init;
    tc_tensor bound = {.dtype = (tc_dtype)input->dtype,
                       .rank = input->rank,
                       .dims = input->dims,
                       .data = input->data,
                       .bytes = input->bytes};
    if (!input->data) {
        if (init && init->data)
            input->value->contents = tc_contents_of_tensor(s->model, init);
        return;
    }
    if (input->bytes > TC_CONTENTS_LIMIT || !tc_shape_count(bound.rank, bound.dims, &bound.count))
        return;
    tc_tensor *kept = tc_tensor_create(s->model, bound.dtype, bound.rank, bound.dims, input->data);
    input->value->contents = tc_contents_of_tensor(s->model, kept);
    input->decided = malloc(input->bytes + 1);
    if (!input->decided)
        tc_out_of_memory(input->bytes);
    if (input->bytes > 0)
        memcpy(input->decided, input->data, input->bytes);
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

static void forget(tempo_session *s) {
    for (uint32_t i = 0; i < s->model->graph->n_inputs; i++) {
        rt_input *input = &s->inputs[i];
        input->value->type = input->declared;
        input->value->contents = NULL;
        free(input->decided);
        input->decided = NULL;
    }
    tc_forget_shapes(s->model->graph);
}

static bool may_decide(const rt_input *input, rt_decide decide) {
    tc_dtype dtype = input->data ? (tc_dtype)input->dtype : tc_value_dtype(input->value);
    return decide == RT_ALL_ELEMENTS || (decide == RT_INTEGERS && !tc_dtype_is_float(dtype));
}

tc_status rt_resolve_shapes(tempo_session *s, rt_decide decide, bool *out_static) {
    tc_graph *graph = s->model->graph;
    forget(s);
    tc_map *symbols = tc_map_create(s->ctx.arena);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        TC_TRY(s->inputs[i].data ? match_input(s, &s->inputs[i], symbols) : match_default(s, &s->inputs[i]));
    size_t cursor = 0;
    const void *symbol;
    void *found;
    while (tc_map_next(symbols, &cursor, &symbol, &found))
        tc_substitute_symbol(graph, symbol, ((const binding *)found)->size);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (may_decide(&s->inputs[i], decide))
            hand_over_contents(s, &s->inputs[i]);
    TC_TRY(tc_infer_graph(&s->ctx, graph));
    *out_static = all_static(graph);
    return TC_OK;
}
