/* past.c: the pass `past`. A decoder that is exported to generate text reads the keys and values of earlier tokens
 * (inputs past_key_values.N.key) and gives them back followed by its own (outputs present.N.key). In training each
 * sequence is whole: no token is earlier. So the past is empty: its inputs and outputs are taken off, and the dims
 * that count all tokens are those that count the new ones. */
#include "compiler/build/build.h"
#include "passes/pass/pass.h"
#include <string.h>

/* Ops that put the past before the new rows, and the result that holds both. */
static const struct cache {
    const char *domain, *op;
    uint32_t operand, result;
    int axis; /* of the tokens; -1: the attribute `axis` */
} caches[] = {
    {"", "Concat", 0, 0, -1},
    {"", "Attention", 4, 1, 2},
    {"", "Attention", 5, 2, 2},
    {"com.microsoft", "Attention", 4, 1, 3},
    {"com.microsoft", "GroupQueryAttention", 3, 1, 2},
    {"com.microsoft", "GroupQueryAttention", 4, 2, 2},
    {"com.microsoft", "MultiHeadAttention", 6, 1, 2},
    {"com.microsoft", "MultiHeadAttention", 7, 2, 2},
};

typedef struct past {
    tc_ctx *ctx;
    tc_graph *graph;
    tc_dim sequence;      /* of the new tokens; unknown: no input says it */
    const char **inputs;  /* names of what was taken off */
    const char **outputs; /* likewise */
    size_t n_inputs, n_outputs, cap_inputs, cap_outputs;
    bool right; /* an op takes rows for padded at their end */
} past;

static bool says(const tc_value *value, const char *word) { return strstr(value->name, word) != NULL; }

static const struct cache *cache_of(const tc_use *use) {
    for (size_t i = 0; i < TC_COUNT(caches); i++)
        if (use->index == caches[i].operand && tc_node_is(use->user, caches[i].domain, caches[i].op))
            return &caches[i];
    return NULL;
}

static int axis_in(const struct cache *cache, const tc_use *use, int rank) {
    int64_t axis = cache->axis >= 0 ? cache->axis : tc_attr_int(use->user, "axis", 0);
    axis = axis < 0 ? axis + rank : axis;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

static bool is_called_past(const tc_value *value) {
    return value->is_input && !value->init && says(value, "past") && tc_dtype_is_float(tc_value_dtype(value)) &&
           tc_value_rank(value) > 1;
}

/* The axis of the tokens: of a value called past with which a cache begins, which an output called present gives back,
 * and which is read for its shape beside that. -1: it is none. */
static int axis_of_past(const tc_value *value) {
    int axis = -1;
    for (const tc_use *use = is_called_past(value) ? value->uses : NULL; use; use = use->next) {
        if (tc_node_is(use->user, "", "Shape"))
            continue;
        const struct cache *cache = cache_of(use);
        const tc_value *present = cache ? tc_output(use->user, cache->result) : NULL;
        int at = cache ? axis_in(cache, use, tc_value_rank(value)) : -1;
        if (at < 0 || (axis >= 0 && at != axis) || !present || present->n_graph_outputs == 0 ||
            !says(present, "present") || use->user->graph != value->graph)
            return -1;
        axis = at;
    }
    return axis;
}

/* --- the length of what is read --------------------------------------------------------------- */

static tc_value *find_input(const tc_graph *graph, const char *const *names, size_t n) {
    for (size_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < graph->n_inputs; i++)
            if (strcmp(graph->inputs[i]->name, names[k]) == 0)
                return graph->inputs[i];
    return NULL;
}

static const char *const token_names[] = {"input_ids", "inputs_embeds", "decoder_input_ids", "decoder_inputs_embeds"};

static void set_dim(tc_model *model, tc_value *value, int axis, tc_dim dim) {
    tc_dim dims[TC_MAX_RANK];
    memcpy(dims, value->type->dims, sizeof(*dims) * (size_t)value->type->rank);
    dims[axis] = dim;
    value->type = tc_type_tensor(model, value->type->dtype, value->type->rank, dims);
}

/* Wherever a declared type has the dim `was`, it has that of the new tokens. */
static void count_new_tokens(past *p, tc_dim was) {
    const tc_value *value;
    size_t at = 0;
    if (tc_dim_is_const(was) || tc_dim_is_unknown(was) || tc_dim_is_unknown(p->sequence))
        return;
    while (tc_map_next(p->graph->names, &at, NULL, (void **)&value))
        for (int axis = 0; axis < tc_value_rank(value); axis++)
            if (tc_dim_equal(value->type->dims[axis], was))
                set_dim(p->graph->model, (tc_value *)(uintptr_t)value, axis, p->sequence);
}

/* A mask of the tokens, [batch, all of them], whatever the dim is called. */
static void count_in_mask(past *p) {
    static const char *const names[] = {"attention_mask", "decoder_attention_mask"};
    const tc_value *mask = find_input(p->graph, names, TC_COUNT(names));
    if (mask && tc_value_rank(mask) == 2)
        count_new_tokens(p, mask->type->dims[1]);
}

/* --- taking off ------------------------------------------------------------------------------- */

static tc_status refuse(past *p, tc_status status, const char *hint) {
    tc_hint(p->ctx, "%s", hint);
    return status;
}

/* Zeros of the past's shape with no token, for nodes that read its shape. */
static tc_status empty_of(past *p, const tc_value *value, int axis, tc_value **out_empty) {
    const tc_value *tokens = find_input(p->graph, token_names, TC_COUNT(token_names));
    tc_insert insert;
    tc_value *parts[TC_MAX_RANK];
    tc_insert_begin(&insert, p->ctx, p->ctx->arena, p->graph->first);
    for (int i = 0; i < value->type->rank; i++) {
        tc_dim dim = i == axis ? tc_dim_const(0) : value->type->dims[i];
        bool is_batch = tokens && tc_value_rank(tokens) > 0 && tc_dim_equal(dim, tokens->type->dims[0]);
        if (!tc_dim_is_const(dim) && !is_batch) {
            tc_insert_undo(&insert);
            tc_error(p->ctx, TC_UNSUPPORTED, NULL,
                     "the shape of the past '%s' is read, and its axis %d has no known size",
                     tc_quote(p->ctx, value->name), i);
            return refuse(p, TC_UNSUPPORTED, "give that axis a size: --dim NAME=N");
        }
        parts[i] = tc_dim_is_const(dim) ? tc_build_int(&insert.g, dim.value)
                                        : tc_build_dims(&insert.g, (tc_value *)(uintptr_t)tokens, 0, 1);
    }
    tc_value *shape = tc_build_concat(&insert.g, (size_t)value->type->rank, parts, 0);
    *out_empty = tc_build_zeros(&insert.g, shape, value->type->dtype);
    return tc_insert_end(&insert);
}

static void take_output(past *p, tc_value *present) {
    for (uint32_t i = p->graph->n_outputs; i-- > 0;)
        if (p->graph->outputs[i] == present)
            tc_graph_remove_output(p->graph, i);
    p->outputs = tc_arena_grow(p->ctx->arena, p->outputs, sizeof *p->outputs, &p->cap_outputs, p->n_outputs + 1);
    p->outputs[p->n_outputs++] = present->name;
}

/* The node goes on without its past. */
static void leave_out(tc_node *node, uint32_t operand) {
    if (!tc_node_is(node, "", "Concat")) {
        tc_node_set_input(node, operand, NULL);
        return;
    }
    for (uint32_t i = 1; i < node->n_inputs; i++)
        tc_node_set_input(node, i - 1, tc_input(node, i));
    tc_node_resize_inputs(node, node->n_inputs - 1);
}

static tc_status take_off(past *p, tc_value *value, int axis) {
    tc_dim length = value->type->dims[axis];
    if (tc_dim_is_const(length) && length.value > 0) {
        tc_error(p->ctx, TC_UNSUPPORTED, NULL, "the past '%s' has %lld tokens, which training has no use for",
                 tc_quote(p->ctx, value->name), (long long)length.value);
        return refuse(p, TC_UNSUPPORTED,
                      "export the decoder with a past of any length, or without one (use_cache=False)");
    }
    tc_value *empty = NULL;
    while (value->uses) {
        tc_node *user = value->uses->user;
        const struct cache *cache = cache_of(value->uses);
        if (!cache) {
            if (!empty)
                TC_TRY(empty_of(p, value, axis, &empty));
            tc_node_set_input(user, value->uses->index, empty);
            continue;
        }
        tc_value *present = tc_output(user, cache->result);
        count_new_tokens(p, present->type ? present->type->dims[axis] : tc_dim_unknown());
        take_output(p, present);
        p->right = p->right || tc_node_is(user, "com.microsoft", "GroupQueryAttention");
        leave_out(user, cache->operand);
    }
    p->inputs = tc_arena_grow(p->ctx->arena, p->inputs, sizeof *p->inputs, &p->cap_inputs, p->n_inputs + 1);
    p->inputs[p->n_inputs++] = value->name;
    tc_graph_remove_input(p->graph, value);
    return TC_OK;
}

/* Inputs and outputs that have the names of a past, but are none that can be empty. */
static tc_status refuse_others(past *p) {
    bool gives_present = p->n_outputs > 0;
    for (uint32_t i = 0; i < p->graph->n_outputs; i++)
        gives_present = gives_present || strncmp(p->graph->outputs[i]->name, "present", strlen("present")) == 0;
    for (uint32_t i = 0; gives_present && i < p->graph->n_inputs; i++) {
        const tc_value *value = p->graph->inputs[i];
        if (!is_called_past(value) || strncmp(value->name, "past", strlen("past")) != 0)
            continue;
        tc_error(p->ctx, TC_UNSUPPORTED, NULL,
                 "'%s' is called a past, but no node puts it before new keys or values that are an output 'present'",
                 tc_quote(p->ctx, value->name));
        return refuse(p, TC_UNSUPPORTED,
                      "give the export without a past: decoder_model.onnx, --task text-generation, or use_cache=False");
    }
    return TC_OK;
}

static tc_status need_tokens(past *p) {
    const tc_value *tokens = find_input(p->graph, token_names, TC_COUNT(token_names));
    p->sequence = tokens && tc_value_rank(tokens) > 1 ? tokens->type->dims[1] : tc_dim_unknown();
    if (!tc_dim_equal(p->sequence, tc_dim_const(1)))
        return TC_OK;
    tc_error(p->ctx, TC_UNSUPPORTED, NULL, "'%s' holds one token: the file is the decoder of one further step",
             tc_quote(p->ctx, tokens->name));
    return refuse(p, TC_UNSUPPORTED,
                  "give the decoder that reads whole sequences: decoder_model.onnx, or use_cache=False");
}

tc_status tc_pass_past(tc_pass_env *env, tc_model *model) {
    past p = {.ctx = env->ctx, .graph = model->graph};
    bool found = false;
    for (uint32_t i = 0; i < p.graph->n_inputs; i++)
        found = found || axis_of_past(p.graph->inputs[i]) >= 0;
    if (found)
        TC_TRY(need_tokens(&p));
    for (uint32_t i = p.graph->n_inputs; i-- > 0;) {
        int axis = axis_of_past(p.graph->inputs[i]);
        if (axis >= 0)
            TC_TRY(take_off(&p, p.graph->inputs[i], axis));
    }
    TC_TRY(refuse_others(&p));
    if (!found)
        return TC_OK;
    count_in_mask(&p);
    tc_note(
        p.ctx, NULL, "the past is empty: %zu inputs ('%s' and so on) and %zu outputs ('%s' and so on) are taken off%s",
        p.n_inputs, tc_quote(p.ctx, p.inputs[p.n_inputs - 1]), p.n_outputs, tc_quote(p.ctx, p.outputs[p.n_outputs - 1]),
        p.right ? ", and sequences that are shorter than others must be padded at their end" : "");
    return TC_OK;
}
