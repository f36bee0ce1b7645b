/* draw_inputs.c: random inputs for `tempoc --verify`. The range of an integer input is found in the graph: its elements
 * are followed through nodes that move them without changing them, to an operand that takes them as indices; the size
 * of the table there is the range. Element i of input n depends on seed, n and i alone (philox.h). */
#include "draw_inputs.h"
#include <math.h>
#include <string.h>

#define TWO_PI 6.283185307179586

/* --- dims ------------------------------------------------------------------------------------- */

typedef struct drawing {
    tc_ctx *ctx;
    const tc_model *model;
    const tc_drawing *how;
    tc_draw *draw;
} drawing;

static bool known_dim(void *user, const char *name, int64_t *out_value) { /* a tc_dim_lookup */
    const tc_draw *draw = ((drawing *)user)->draw;
    for (size_t i = 0; i < draw->n_dims; i++)
        if (strcmp(draw->dims[i].name, name) == 0) {
            *out_value = draw->dims[i].value;
            return true;
        }
    return false;
}

/* Each new symbol usually gets another value: a swap of two is then noticed. */
static bool any_dim(void *user, const char *name, int64_t *out_value) {
    drawing *d = user;
    tc_draw *draw = d->draw;
    if (known_dim(user, name, out_value))
        return true;
    *out_value = d->how->first_dim + d->how->dim_step * (int64_t)draw->n_dims;
    draw->dims = tc_arena_grow(d->ctx->arena, draw->dims, sizeof *draw->dims, &draw->cap_dims, draw->n_dims + 1);
    draw->dims[draw->n_dims++] = (tc_drawn_dim){tc_arena_strdup(d->ctx->arena, name), *out_value};
    return true;
}

static tc_status shape_of(drawing *d, const tc_value *value, tempo_tensor *t, uint64_t *out_count) {
    const tc_type *type = value->type;
    if (type == NULL || type->kind != TC_TENSOR || type->rank == TC_RANK_UNKNOWN ||
        tempo_dtype_size((tempo_dtype)type->dtype) == 0)
        return tc_error(d->ctx, TC_UNSUPPORTED, NULL,
                        "--verify: input '%s' is %s; expected a tensor of known rank and element type",
                        tc_quote(d->ctx, value->name), tc_type_text(d->ctx->arena, type));
    int64_t *dims = TC_NEW_ARRAY(d->ctx->arena, int64_t, (size_t)type->rank + 1);
    for (int i = 0; i < type->rank; i++) {
        tc_dim dim = tc_dim_is_unknown(type->dims[i]) ? tc_dim_const(d->how->first_dim) : type->dims[i];
        dim = tc_dim_substitute(d->model->dims, dim, any_dim, d);
        if (!tc_dim_is_const(dim) || dim.value < 0)
            return tc_error(d->ctx, TC_UNSUPPORTED, NULL,
                            "--verify: dimension %d of input '%s' (%s) cannot be worked out", i,
                            tc_quote(d->ctx, value->name), tc_type_text(d->ctx->arena, type));
        dims[i] = dim.value;
    }
    *t = (tempo_tensor){(tempo_dtype)type->dtype, type->rank, dims, NULL, 0};
    if (!tc_shape_count(type->rank, dims, out_count) || *out_count > INT64_MAX / 16)
        return tc_error(d->ctx, TC_LIMIT, NULL, "--verify: input '%s' has more elements than can be addressed",
                        tc_quote(d->ctx, value->name));
    t->bytes = (size_t)*out_count * tempo_dtype_size(t->dtype);
    return TC_OK;
}

/* --- ranges of integers ----------------------------------------------------------------------- */

/* Operand `indices` counts along dimension `axis` (or the attribute of that name, where the op has one) of operand
 * `table`, a matrix where the op may have it transposed. */
static const struct {
    const char *domain, *op;
    uint32_t indices, table;
    int64_t axis;
} tables[] = {
    {"", "GRU", 4, 0, 0},
    {"", "Gather", 1, 0, 0},
    {"", "GatherElements", 1, 0, 0},
    {"", "LSTM", 4, 0, 0},
    {"", "NegativeLogLikelihoodLoss", 1, 0, 1},
    {"", "RNN", 4, 0, 0},
    {"", "ScatterElements", 1, 0, 0},
    {"", "SoftmaxCrossEntropyLoss", 1, 0, 1},
    {"ai.tempo", "LinearCrossEntropy", 2, 1, 1},
    {"ai.tempo", "RotaryEmbedding", 3, 1, 0},
    {"ai.tempo", "SoftmaxCrossEntropyLossGrad", 2, 1, 1},
};

/* Results hold elements of operands `first` to `last`, and of no other. */
static const struct {
    const char *op;
    uint32_t first, last;
} moves[] = {
    {"Cast", 0, 0},           {"Concat", 0, UINT32_MAX}, {"Expand", 0, 0},   {"Flatten", 0, 0}, {"Gather", 0, 0},
    {"GatherElements", 0, 0}, {"GatherND", 0, 0},        {"Identity", 0, 0}, {"Pad", 0, 0},     {"Reshape", 0, 0},
    {"Slice", 0, 0},          {"Split", 0, 0},           {"Squeeze", 0, 0},  {"Tile", 0, 0},    {"Transpose", 0, 0},
    {"Unsqueeze", 0, 0},      {"Where", 1, 2},
};

static bool moves_on(const tc_use *use) {
    for (size_t i = 0; i < TC_COUNT(moves); i++)
        if (tc_node_is(use->user, "", moves[i].op))
            return use->index >= moves[i].first && use->index <= moves[i].last;
    return false;
}

/* The size of the table that the use takes indices into; INT64_MAX: it takes none, or the size is not known. */
static int64_t table_size(drawing *d, const tc_use *use) {
    for (size_t i = 0; i < TC_COUNT(tables); i++) {
        if (use->index != tables[i].indices || !tc_node_is(use->user, tables[i].domain, tables[i].op))
            continue;
        const tc_value *table = tc_input(use->user, tables[i].table);
        int rank = tc_value_rank(table);
        int64_t axis = tc_attr_int(use->user, "axis", tables[i].axis) - tc_attr_int(use->user, "transB", 0);
        axis += axis < 0 ? rank : 0;
        if (rank == TC_RANK_UNKNOWN || axis < 0 || axis >= rank)
            return INT64_MAX;
        tc_dim size = tc_dim_substitute(d->model->dims, table->type->dims[axis], known_dim, d);
        return tc_dim_is_const(size) && size.value > 0 ? size.value : INT64_MAX;
    }
    return INT64_MAX;
}

static int64_t smallest_table(drawing *d, tc_value *input) {
    tc_map *seen = tc_map_create(d->ctx->arena);
    size_t n = 1, capacity = 0;
    tc_value **todo = tc_arena_grow(d->ctx->arena, NULL, sizeof(tc_value *), &capacity, n);
    todo[0] = input;
    int64_t smallest = INT64_MAX;
    while (n > 0) {
        const tc_value *value = todo[--n];
        TC_FOR_USES(use, value) {
            int64_t size = table_size(d, use);
            smallest = size < smallest ? size : smallest;
            for (uint32_t i = 0; moves_on(use) && i < use->user->n_outputs; i++) {
                tc_value *next = use->user->outputs[i];
                if (next == NULL || tc_map_get_ptr(seen, next))
                    continue;
                tc_map_set_ptr(seen, next, next);
                todo = tc_arena_grow(d->ctx->arena, todo, sizeof(tc_value *), &capacity, n + 1);
                todo[n++] = next;
            }
        }
    }
    return smallest;
}

/* Whether floats are the factors of a Resize, which are above 0. */
static bool are_factors(const tc_value *input) {
    TC_FOR_USES(use, input) {
        if (tc_node_is(use->user, "", "Resize") && use->index == 2)
            return true;
    }
    return false;
}

/* --- elements --------------------------------------------------------------------------------- */

static double normal(const uint32_t words[4]) { /* Box and Muller */
    double u = 1.0 - (double)tk_uniform(words[0]), v = (double)tk_uniform(words[1]);
    return sqrt(-2.0 * log(u)) * cos(TWO_PI * v);
}

double tc_draw_normal(const tk_draw *draw, uint64_t index) {
    uint32_t words[4];
    tk_draw_block(draw, index, words);
    return normal(words);
}

static double mask(const uint32_t words[4], bool starts_row) { return starts_row || words[0] % 4 != 0 ? 1.0 : 0.0; }

static void fill(const tempo_tensor *t, uint64_t count, const tk_draw *draw, int64_t below, bool factors) {
    uint64_t row = t->rank > 0 ? (uint64_t)t->dims[t->rank - 1] : 1;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t words[4];
        tk_draw_block(draw, i, words);
        double value = factors                                 ? 1 + words[0] % 2
                       : tc_dtype_is_float((tc_dtype)t->dtype) ? normal(words)
                       : below == INT64_MAX                    ? mask(words, i % row == 0)
                                                               : (double)(words[0] % (uint64_t)below);
        tc_element_set((tc_dtype)t->dtype, t->data, i, value);
    }
}

tc_status tc_draw_some(tc_ctx *ctx, const tc_model *model, const tc_drawing *how, tc_draw *out_draw) {
    drawing d = {ctx, model, how, out_draw};
    const tc_graph *graph = model->graph;
    *out_draw = (tc_draw){.inputs = TC_NEW_ARRAY(ctx->arena, tc_drawn_input, (size_t)graph->n_inputs + 1)};
    uint64_t *counts = TC_NEW_ARRAY(ctx->arena, uint64_t, (size_t)graph->n_inputs + 1);
    for (uint32_t i = 0; i < graph->n_inputs; i++) /* all symbols have values before any table is looked up */
        if (graph->inputs[i]->init == NULL)
            TC_TRY(shape_of(&d, graph->inputs[i], &out_draw->inputs[i].tensor, &counts[i]));
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        tc_value *value = graph->inputs[i];
        if (value->init)
            continue;
        tc_drawn_input *input = &out_draw->inputs[out_draw->n_inputs++];
        *input = (tc_drawn_input){tc_arena_strdup(ctx->arena, value->name), out_draw->inputs[i].tensor};
        if (input->tensor.bytes > how->most)
            continue;
        input->tensor.data = tc_arena_alloc(ctx->arena, input->tensor.bytes + 1, 16);
        bool index = !tc_dtype_is_float((tc_dtype)input->tensor.dtype) && input->tensor.dtype != TEMPO_BOOL;
        fill(&input->tensor, counts[i], &(tk_draw){how->seed, i, 0}, index ? smallest_table(&d, value) : INT64_MAX,
             are_factors(value));
    }
    return TC_OK;
}

tc_status tc_draw_inputs(tc_ctx *ctx, const tc_model *model, uint64_t seed, tc_draw *out_draw) {
    const tc_drawing how = {.seed = seed, .first_dim = 2, .dim_step = 1, .most = UINT64_MAX};
    return tc_draw_some(ctx, model, &how, out_draw);
}
