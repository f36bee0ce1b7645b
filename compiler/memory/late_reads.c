/* late_reads.c: whether the backward pass reads a value: the question that guards of lean.rules ask, of one value at a
 * time.
 */
#include "late_reads.h"
#include "liveness.h"
#include "storage.h"
#include <string.h>

enum {
    VIEWS = 16, /* followed one after another */
    CHAIN = 4,  /* cheap nodes likewise */
    USERS = 64, /* of one value */
};

typedef struct row {
    const char *domain, *op;
    uint8_t cost;
} row;

static const row rows[] = {
#define CHEAP(domain, op, cost) {domain, #op, cost},
#include "cheap.def"
#undef CHEAP
};

uint8_t tc_cheap_cost(const tc_node *node) {
    if (!node->op || tc_node_has(node, TC_RANDOM | TC_CONTROL | TC_SIDE_EFFECT))
        return TC_NEVER;
    if (tc_node_has(node, TC_ELEMENTWISE))
        return 1;
    for (size_t i = 0; i < TC_COUNT(rows); i++)
        if (strcmp(rows[i].op, node->op->name) == 0 && strcmp(rows[i].domain, node->domain) == 0)
            return rows[i].cost;
    return TC_NEVER;
}

static bool is_view_of(const tc_use *use) { return tc_operand_read(use->user, use->index) == TC_READ_VIEW; }

static bool read_late(const tc_value *value, const tc_node *end, const tc_node *but, bool otherwise, int depth) {
    if (depth == 0)
        return otherwise;
    TC_FOR_USES(use, value) {
        if (use->user == but || tc_operand_read(use->user, use->index) == TC_READ_SHAPE)
            continue;
        if (use->user->graph != end->graph) {
            if (otherwise)
                return true;
        } else if (is_view_of(use)) {
            if (read_late(use->user->outputs[0], end, but, otherwise, depth - 1))
                return true;
        } else if (tc_node_before(end, use->user)) {
            return true;
        }
    }
    return false;
}

bool tc_read_late(const tc_value *value, const tc_node *end, const tc_node *but, bool otherwise) {
    return read_late(value, end, but, otherwise, VIEWS);
}

/* Whether every operand of a node but `value` is there when the backward pass runs. */
static bool rest_is_there(const tc_node *node, const tc_value *value, const tc_node *end) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *operand = tc_input(node, i);
        if (!operand || operand == value)
            continue;
        const tc_value *storage = tc_value_storage(operand);
        if (!tc_value_is_given(storage) && !tc_read_late(storage, end, NULL, false))
            return false;
    }
    return true;
}

/* Whether keeping operand 0 instead of result 0 halves the bytes, or more. */
static bool is_half(const tc_node *node) {
    tc_dim_pool *pool = node->graph->model->dims;
    const tc_value *operand = tc_input(node, 0);
    if (!operand)
        return false;
    uint64_t from = tc_sample_bytes(pool, tc_value_bytes(pool, operand));
    return from > 0 && from <= tc_sample_bytes(pool, tc_value_bytes(pool, node->outputs[0])) / 2;
}

bool tc_recomputable(const tc_value *value, const tc_node *end) {
    const tc_node *node = tc_value_storage(value)->producer;
    if (!node || node->graph != end->graph || tc_cheap_cost(node) == TC_NEVER)
        return false;
    return rest_is_there(node, NULL, end) || (is_half(node) && rest_is_there(node, tc_input(node, 0), end));
}

/* Whether the value or a view of it is an output of the graph. */
static bool is_shown(const tc_value *value, int depth) {
    if (value->n_graph_outputs)
        return true;
    TC_FOR_USES(use, value)
        if (depth > 0 && is_view_of(use) && is_shown(use->user->outputs[0], depth - 1))
            return true;
    return false;
}

bool tc_is_shown(const tc_value *value) { return is_shown(value, VIEWS); }

static bool needed_late(const tc_value *value, const tc_node *end, int depth) {
    if (depth == 0 || tc_is_shown(value))
        return false;
    if (tc_read_late(value, end, NULL, false))
        return true;
    int tried = 0;
    for (const tc_use *use = value->uses; use && tried < USERS; use = use->next, tried++) {
        const tc_node *user = use->user;
        bool early = user->graph == end->graph && !tc_node_before(end, user) && tc_output(user, 0);
        bool cheap = early && (is_view_of(use) || (tc_cheap_cost(user) != TC_NEVER && rest_is_there(user, value, end)));
        if (cheap && needed_late(user->outputs[0], end, depth - 1))
            return true;
    }
    return false;
}

bool tc_needed_late(const tc_value *value, const tc_node *end) { return needed_late(value, end, CHAIN); }
