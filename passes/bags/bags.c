/* bags.c: replaces a Loop over bags of rows by one reduction of all bags (bags_build.c). Iteration k of such a Loop
 * reduces the rows between two neighbours of a table, table[k] and table[k + 1]; its results are stacked, or put
 * into a sequence that is concatenated. PyTorch's exporters write EmbeddingBag in this way: TorchScript looks rows
 * up in the iteration; dynamo uses a sequence, and branches for empty bags and for the last one.
 * The loop's body is read by meaning: each of its values is the iteration number, an element of a table, rows cut
 * out, their number, or their reduction. Ops that treat rows one by one are applied to all rows before the loop. */
#include "bags.h"
#include "compiler/shape/shape.h"

enum { NOWHERE = -1, AT_END = -2 }; /* the end of rows: at an unknown position, at the last row of all */

typedef enum meaning_kind {
    UNKNOWN, /* no other meaning fits */
    OUTSIDE, /* a value from outside the loop */
    NUMBER,  /* `shift` */
    TURN,    /* the iteration number + shift */
    PICK,    /* value[iteration + shift] */
    ROWS,    /* rows of `value`, from table[iteration + from] to table[iteration + to] */
    COUNT,   /* the number of these rows */
    ZEROS,   /* zeros */
    BAG,     /* the reduction of rows */
    EMPTY,   /* whether there are no rows; ANY: whether there are some */
    ANY,
    LAST, /* whether this is the last iteration */
} meaning_kind;

typedef struct meaning {
    meaning_kind kind;
    tc_bag_kind reduction;
    tc_value *value, *table;
    int64_t shift, from, to;
} meaning;

typedef struct reader {
    tc_insert insert;
    tc_arena *arena;
    tc_model *model;
    tc_node *loop;
    tc_graph *body;
    tc_map *known;    /* tc_value -> meaning */
    tc_value *count;  /* the number of iterations, from outside the loop */
    tc_value *number; /* the body's value that counts iterations, beside its first input; or NULL */
    int depth;
} reader;

static const meaning unknown = {UNKNOWN, 0, NULL, NULL, 0, 0, 0};

static meaning means(reader *r, tc_value *value);

static meaning operand(reader *r, const tc_node *node, uint32_t index) {
    tc_value *value = tc_input(node, index);
    return value ? means(r, value) : unknown;
}

/* --- known numbers ---------------------------------------------------------------------------- */

static bool is_number(reader *r, tc_value *value, int64_t *out_number) {
    const tc_contents *known = value ? tc_value_contents(r->model, value) : NULL;
    if (!known || known->count != 1 || tc_dtype_is_float(known->dtype) || !tc_dim_is_const(known->items[0].i))
        return false;
    *out_number = known->items[0].i.value;
    return true;
}

/* The only element as a dim, which may be symbolic; unknown if it is not known. */
static tc_dim only_dim(reader *r, tc_value *value) {
    const tc_contents *known = tc_value_contents(r->model, value);
    return known && known->count == 1 && !tc_dtype_is_float(known->dtype) ? known->items[0].i : tc_dim_unknown();
}

static bool is_outside(const reader *r, const tc_value *value) {
    const tc_graph *graph = r->loop->graph;
    while (graph && graph != value->graph)
        graph = graph->parent;
    return graph != NULL;
}

static bool is_zeros(const tc_tensor *tensor) {
    if (!tensor || !tensor->data || !tc_dtype_is_float(tensor->dtype))
        return false;
    for (uint64_t i = 0; i < tensor->count; i++)
        if (tc_tensor_get(tensor, i) != 0)
            return false;
    return true;
}

/* Whether the operand is absent, or a list with axis 0 alone. */
static bool along_first(reader *r, const tc_node *node, uint32_t index, bool may_lack) {
    int64_t axis = -1;
    tc_value *axes = tc_input(node, index);
    return axes ? is_number(r, axes, &axis) && axis == 0 : may_lack;
}

static bool same_rows(meaning a, meaning b) {
    bool ends = a.to == b.to || a.to == AT_END || b.to == AT_END;
    return a.table == b.table && a.from == b.from && ends;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* The same op on all rows, before the loop; `operands` are complete. */
static meaning on_all(reader *r, const tc_node *node, meaning rows, tc_value *const *operands) {
    tc_build *g = &r->insert.g;
    tc_node *whole = tc_build_node(g, node->domain, node->op_type, node->n_inputs, operands, 1);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(whole, &node->attrs[i]);
    rows.value = tc_build_finish(g, whole);
    return rows;
}

/* An op that treats each row alike: all its operands are the same rows, or only the first is rows. */
static meaning row_by_row(reader *r, const tc_node *node, uint32_t n_rows) {
    tc_value *operands[3] = {NULL};
    meaning first = operand(r, node, 0);
    if (first.kind != ROWS || node->n_inputs > TC_COUNT(operands))
        return unknown;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        meaning m = operand(r, node, i);
        bool fits = i < n_rows ? m.kind == ROWS && same_rows(m, first) : m.kind == OUTSIDE || m.kind == NUMBER;
        operands[i] = m.kind == ROWS || m.kind == OUTSIDE ? m.value : tc_input(node, i);
        if (!fits || (i >= n_rows && !is_outside(r, operands[i])))
            return unknown;
    }
    return on_all(r, node, first, operands);
}

static meaning read_slice(reader *r, const tc_node *node) {
    meaning data = operand(r, node, 0), start = operand(r, node, 1), end = operand(r, node, 2);
    int64_t step = 1;
    if (data.kind != OUTSIDE || !along_first(r, node, 3, true) ||
        (tc_input(node, 4) && !is_number(r, tc_input(node, 4), &step)) || step != 1)
        return unknown;
    if (start.kind == TURN && end.kind == TURN && end.shift == start.shift + 1 && tc_value_rank(data.value) == 1)
        return (meaning){.kind = PICK, .value = data.value, .shift = start.shift};
    if (start.kind != PICK || tc_value_rank(data.value) < 1)
        return unknown;
    meaning rows = {.kind = ROWS, .value = data.value, .table = start.value, .from = start.shift};
    if (end.kind == PICK && end.value == start.value)
        rows.to = end.shift;
    else if (tc_dim_equal(only_dim(r, tc_input(node, 2)), data.value->type->dims[0]))
        rows.to = AT_END;
    else
        return unknown;
    return rows;
}

/* table[iteration + shift]; the table may be the tail of another one. */
static meaning pick(reader *r, tc_value *table, int64_t shift) {
    const tc_node *slice = table->producer;
    int64_t from, step = 1;
    if (slice && tc_node_is(slice, "", "Slice") && is_number(r, tc_input(slice, 1), &from) && from >= 0 &&
        along_first(r, slice, 3, true) && (!tc_input(slice, 4) || is_number(r, tc_input(slice, 4), &step)) && step == 1)
        return (meaning){.kind = PICK, .value = tc_input(slice, 0), .shift = shift + from};
    return (meaning){.kind = PICK, .value = table, .shift = shift};
}

static meaning read_gather(reader *r, const tc_node *node) {
    meaning data = operand(r, node, 0), at = operand(r, node, 1);
    if (data.kind != OUTSIDE || tc_attr_int(node, "axis", 0) != 0)
        return unknown;
    if (at.kind == TURN && tc_value_rank(data.value) == 1)
        return pick(r, data.value, at.shift);
    if (at.kind == ROWS && tc_value_rank(at.value) == 1)
        return on_all(r, node, at, (tc_value *[]){data.value, at.value});
    return unknown;
}

/* Rows stay rows if the op changes only axes after the first one; numbers of one element keep their meaning. */
static meaning read_view(reader *r, const tc_node *node) {
    meaning m = operand(r, node, 0);
    if (m.kind == ROWS) {
        int64_t axes[TC_MAX_RANK];
        size_t n = 0;
        bool behind =
            tc_node_is(node, "", "Unsqueeze") && tc_build_known_ints(tc_input(node, 1), axes, TC_MAX_RANK, &n);
        for (size_t i = 0; i < n; i++)
            behind = behind && axes[i] > 0;
        return behind ? on_all(r, node, m, (tc_value *[]){m.value, tc_build_ints(&r->insert.g, axes, n)}) : unknown;
    }
    return m.kind == TURN || m.kind == PICK || m.kind == NUMBER || m.kind == COUNT ? m : unknown;
}

/* --- numbers and conditions ------------------------------------------------------------------- */

static meaning read_cast(reader *r, const tc_node *node) {
    meaning m = operand(r, node, 0);
    if (m.kind == ROWS) {
        tc_node *whole = TC_BEGIN(&r->insert.g, "Cast", m.value);
        tc_attr_set_int(whole, "to", tc_value_dtype(tc_output(node, 0)));
        m.value = tc_build_finish(&r->insert.g, whole);
    }
    return m;
}

static meaning read_sum(reader *r, const tc_node *node) {
    bool minus = tc_node_is(node, "", "Sub");
    meaning a = operand(r, node, 0), b = operand(r, node, 1);
    if (a.kind == TURN && b.kind == NUMBER)
        return (meaning){.kind = TURN, .shift = minus ? a.shift - b.shift : a.shift + b.shift};
    if (!minus && a.kind == NUMBER && b.kind == TURN)
        return (meaning){.kind = TURN, .shift = a.shift + b.shift};
    if (!minus || b.kind != PICK)
        return unknown;
    meaning count = {.kind = COUNT, .table = b.value, .from = b.shift, .to = NOWHERE};
    if (a.kind == PICK && a.value == b.value)
        count.to = a.shift;
    else if (!tc_dim_is_unknown(only_dim(r, tc_input(node, 0)))) /* of all rows: divide() tests it */
        count = (meaning){.kind = COUNT, .value = tc_input(node, 0), .table = b.value, .from = b.shift, .to = AT_END};
    return count.to == NOWHERE ? unknown : count;
}

static meaning divide(reader *r, const tc_node *node) {
    meaning sum = operand(r, node, 0), count = operand(r, node, 1);
    if (sum.kind != BAG || sum.reduction != TC_BAG_SUM || count.kind != COUNT || !same_rows(sum, count) ||
        (count.value && !tc_dim_equal(only_dim(r, count.value), sum.value->type->dims[0])))
        return unknown;
    sum.reduction = TC_BAG_MEAN;
    return sum;
}

static meaning read_equal(reader *r, const tc_node *node) {
    meaning a = operand(r, node, 0), b = operand(r, node, 1);
    if (a.kind == PICK && b.kind == PICK && a.value == b.value && (a.shift == b.shift + 1 || b.shift == a.shift + 1))
        return (meaning){.kind = EMPTY, .table = a.value, .from = a.shift < b.shift ? a.shift : b.shift};
    int a_at = a.kind == TURN ? 0 : 1; /* which operand is the iteration number */
    a = a_at ? b : a;
    tc_dim last = only_dim(r, tc_input(node, a_at ? 0 : 1));
    tc_dim turns = tc_dim_sub(r->model->dims, only_dim(r, r->count), tc_dim_const(1));
    bool is_last = a.kind == TURN && a.shift == 0 && tc_dim_equal(last, turns);
    return is_last ? (meaning){.kind = LAST} : unknown;
}

static meaning read_greater(reader *r, const tc_node *node) {
    meaning a = operand(r, node, 0), b = operand(r, node, 1);
    if (a.kind != COUNT || b.kind != NUMBER || b.shift != 0)
        return unknown;
    a.kind = ANY;
    return a;
}

static meaning read_if(reader *r, const tc_node *node) {
    int64_t known;
    const tc_attr *yes = tc_attr_find(node, "then_branch"), *no = tc_attr_find(node, "else_branch");
    if (!yes || !no || node->n_outputs != 1 || yes->g->n_outputs != 1 || no->g->n_outputs != 1)
        return unknown;
    tc_value *a = yes->g->outputs[0], *b = no->g->outputs[0];
    if (is_number(r, tc_input(node, 0), &known))
        return means(r, known ? a : b);
    meaning condition = operand(r, node, 0), then = means(r, a), otherwise = means(r, b);
    switch (condition.kind) {
    case EMPTY: /* the reduction of no rows is 0 anyway */
        return then.kind == ZEROS && otherwise.kind == BAG && condition.table == otherwise.table &&
                       condition.from == otherwise.from
                   ? otherwise
                   : unknown;
    case LAST: /* the last bag ends where the rows end */
        if ((then.kind != BAG && then.kind != ROWS) || then.kind != otherwise.kind || then.value != otherwise.value ||
            then.reduction != otherwise.reduction || !same_rows(then, otherwise))
            return unknown;
        return otherwise;
    case ANY: /* both are 0 for no rows */
        return then.kind == BAG && otherwise.kind == BAG && same_rows(condition, then) && same_rows(then, otherwise) &&
                       then.value == otherwise.value
                   ? then
                   : unknown;
    default: return unknown;
    }
}

static meaning reduce(reader *r, const tc_node *node, tc_bag_kind kind) {
    meaning rows = operand(r, node, 0);
    if (rows.kind != ROWS || !along_first(r, node, 1, tc_value_rank(rows.value) == 1))
        return unknown;
    rows.kind = BAG;
    rows.reduction = kind;
    return rows;
}

static meaning read_expand(reader *r, const tc_node *node) {
    meaning m = operand(r, node, 0);
    return m.kind == ZEROS ? m : unknown;
}

static meaning read_row_sum(reader *r, const tc_node *node) { return reduce(r, node, TC_BAG_SUM); }
static meaning read_row_mean(reader *r, const tc_node *node) { return reduce(r, node, TC_BAG_MEAN); }
static meaning read_row_max(reader *r, const tc_node *node) { return reduce(r, node, TC_BAG_MAX); }
static meaning read_product(reader *r, const tc_node *node) { return row_by_row(r, node, 2); }
static meaning read_same(reader *r, const tc_node *node) { return operand(r, node, 0); }

/* --- one iteration ---------------------------------------------------------------------------- */

static const struct {
    const char *op;
    meaning (*read)(reader *r, const tc_node *node);
} ops[] = {
    {"Add", read_sum},
    {"Cast", read_cast},
    {"CastLike", read_cast},
    {"Div", divide},
    {"Equal", read_equal},
    {"Expand", read_expand},
    {"Gather", read_gather},
    {"Greater", read_greater},
    {"Identity", read_same},
    {"If", read_if},
    {"Mul", read_product},
    {"ReduceMax", read_row_max},
    {"ReduceMean", read_row_mean},
    {"ReduceSum", read_row_sum},
    {"Reshape", read_view},
    {"Slice", read_slice},
    {"Squeeze", read_view},
    {"Sub", read_sum},
    {"Unsqueeze", read_view},
};

static meaning read_value(reader *r, tc_value *value) {
    int64_t number;
    const tc_tensor *constant = tc_value_constant(value);
    if (value == r->body->inputs[0] || value == r->number)
        return (meaning){.kind = TURN};
    if (is_number(r, value, &number))
        return (meaning){.kind = NUMBER, .value = value, .shift = number};
    if (!is_outside(r, value) && constant)
        return is_zeros(constant) ? (meaning){.kind = ZEROS} : unknown;
    if (is_outside(r, value))
        return (meaning){.kind = OUTSIDE, .value = value};
    for (size_t i = 0; value->producer && i < TC_COUNT(ops); i++)
        if (tc_node_is(value->producer, "", ops[i].op))
            return ops[i].read(r, value->producer);
    return unknown;
}

static meaning means(reader *r, tc_value *value) {
    enum { MAX_DEPTH = 200 };
    meaning *known = tc_map_get_ptr(r->known, value);
    if (!known && r->depth < MAX_DEPTH) {
        r->depth++;
        meaning found = read_value(r, value);
        r->depth--;
        known = TC_NEW(r->arena, meaning);
        *known = found;
        tc_map_set_ptr(r->known, value, known);
    }
    return known ? *known : unknown;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Whether iterations continue: always, or while iteration + 1 < count; then that is the count. */
static bool read_condition(reader *r, tc_value *condition) {
    int64_t number;
    while (condition->producer && tc_node_is(condition->producer, "", "Identity"))
        condition = tc_input(condition->producer, 0);
    if (condition == r->body->inputs[1] || is_number(r, condition, &number))
        return r->count && (condition == r->body->inputs[1] || number != 0);
    tc_node *less = condition->producer;
    tc_value *limit = less && tc_node_is(less, "", "Less") ? tc_input(less, 1) : NULL;
    if (!limit || !is_outside(r, limit) || r->count)
        return false;
    r->count = limit;
    meaning next = operand(r, less, 0);
    return next.kind == TURN && next.shift == 1;
}

/* The value that each iteration adds to its results: stacked, or appended to a sequence that begins empty and is
 * concatenated along axis 0. *out_result is the value that the bags replace. */
static tc_value *read_results(reader *r, tc_value **out_result) {
    tc_node *loop = r->loop;
    tc_graph *body = r->body;
    if (loop->n_inputs <= 2 && loop->n_outputs == 1 && body->n_outputs == 2 && body->n_inputs == 2) {
        *out_result = loop->outputs[0];
        return body->outputs[1];
    }
    if (loop->n_inputs != 4 || loop->n_outputs != 2 || body->n_inputs != 4 || body->n_outputs != 3)
        return NULL;
    int64_t begin;
    const tc_value *rows = tc_input(loop, 3);
    const tc_node *insert = body->outputs[2]->producer;
    tc_value *joined = tc_output(loop, 1), *counted = tc_output(loop, 0);
    if (!is_number(r, tc_input(loop, 2), &begin) || begin != 0 || !rows || !rows->producer ||
        !tc_node_is(rows->producer, "", "SequenceEmpty") || !insert || !tc_node_is(insert, "", "SequenceInsert") ||
        tc_input(insert, 2) || tc_input(insert, 0) != body->inputs[3] || (counted && tc_value_is_used(counted)) ||
        !joined || tc_value_use_count(joined) != 1 || !joined->uses)
        return NULL;
    tc_node *join = joined->uses->user;
    if (!tc_node_is(join, "", "ConcatFromSequence") || join->graph != loop->graph ||
        tc_attr_int(join, "axis", -1) != 0 || tc_attr_int(join, "new_axis", 0) != 0)
        return NULL;
    r->number = body->inputs[2];
    meaning next = means(r, body->outputs[1]);
    if (next.kind != TURN || next.shift != 1)
        return NULL;
    *out_result = join->outputs[0];
    return tc_input(insert, 1);
}

/* Whether each iteration's result has the rank of the bags' results: one dim less than a bag's rows if it is
 * stacked, one row if it is concatenated. */
static bool fits_result(const tc_value *turn, const tc_value *result, const tc_bags *bags) {
    bool joined = result->producer && tc_node_is(result->producer, "", "ConcatFromSequence");
    int rank = tc_value_rank(turn);
    return rank == TC_RANK_UNKNOWN ? joined : rank == tc_value_rank(bags->rows) - (joined ? 0 : 1);
}

static bool read_loop(reader *r, tc_bags *out_bags, tc_value **out_result) {
    int64_t first = 1;
    r->count = tc_input(r->loop, 0);
    tc_value *turn = read_results(r, out_result);
    if (!turn || !read_condition(r, r->body->outputs[0]))
        return false;
    if (tc_input(r->loop, 1) && !is_number(r, tc_input(r->loop, 1), &first)) /* 0 < count, or there is nothing to do */
        first = tc_node_is(tc_input(r->loop, 1)->producer ? tc_input(r->loop, 1)->producer : r->loop, "", "Less");
    meaning bag = means(r, turn);
    if (!first || bag.kind != BAG || bag.from != 0 || bag.to != 1 || !bag.value->type)
        return false;
    *out_bags = (tc_bags){bag.reduction, bag.value, bag.table, r->count};
    return fits_result(turn, *out_result, out_bags);
}

static void take_place(tc_node *loop, tc_value *result, tc_value *built) {
    tc_node *producer = result->producer, *identity = tc_node_create(loop->graph, "", "Identity", 1, 1);
    identity->name = tc_node_label(loop);
    tc_node_set_input(identity, 0, built);
    tc_node_insert_before(identity, loop);
    tc_node_set_output(identity, 0, tc_node_take_output(producer, result->out_index));
    tc_node_erase(producer);
    if (producer != loop)
        tc_node_erase(loop);
}

static tc_status lower_loop(tc_pass_env *env, tc_node *loop, bool *out_done) {
    const tc_attr *attr = tc_attr_find(loop, "body");
    if (!attr || attr->kind != TC_ATTR_GRAPH || attr->ref || attr->g->n_inputs < 2 || attr->g->n_outputs < 2)
        return TC_OK;
    tc_arena *arena = tc_arena_create();
    reader r = {
        .arena = arena, .model = loop->graph->model, .loop = loop, .body = attr->g, .known = tc_map_create(arena)};
    tc_insert_begin(&r.insert, env->ctx, arena, loop);
    tc_bags bags;
    tc_value *result = NULL;
    tc_status status = TC_OK;
    if (read_loop(&r, &bags, &result) && r.insert.g.status == TC_OK) {
        tc_value *built = tc_build_bags(&r.insert, &bags);
        status = tc_insert_end(&r.insert);
        *out_done = status == TC_OK;
        if (*out_done)
            take_place(loop, result, built);
    } else {
        tc_insert_undo(&r.insert);
    }
    tc_arena_destroy(arena);
    return status;
}

tc_status tc_lower_bags(tc_pass_env *env, tc_graph *graph, uint32_t *out_changes) {
    for (tc_node *node = graph->first, *next = NULL; node; node = next) {
        tc_node *before = node->prev;
        bool done = false;
        if (tc_node_is(node, "", "Loop"))
            TC_TRY(lower_loop(env, node, &done));
        *out_changes += done;
        next = !done    ? node->next
               : before ? before->next
                        : graph->first; /* the op that concatenates the results is removed, too */
    }
    return TC_OK;
}
