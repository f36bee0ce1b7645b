/* fuse.c: for a device whose kernels can walk through memory once for a chain of elementwise ops: nodes of a plan's
 * graph that take each other's results become one node ai.tempo.Chain, which stands where the last of them stood. A
 * result that only the next link reads is never in memory; the others are results of the chain. What becomes a chain
 * depends on the graph alone. */
#include "fuse.h"
#include "../compiler/ops.h"
#include "launch.h"
#include <string.h>

/* Ops with one result like their elements: what they are as a link. */
static const struct {
    const char *domain, *op;
    tk_link_op link;
    uint32_t n_elements; /* operands that are elements: the first ones */
    bool either;         /* the chain may come in by operand 1, too */
} link_ops[] = {
    {"", "Add", TK_LINK_ADD, 2, true},
    {"", "Sub", TK_LINK_SUB, 2, true},
    {"", "Mul", TK_LINK_MUL, 2, true},
    {"", "Div", TK_LINK_DIV, 2, true},
    {"", "Sum", TK_LINK_ADD, 2, true},
    {"", "Neg", TK_LINK_NEG, 1, false},
    {"", "Relu", TK_LINK_RELU, 1, false},
    {"", "Tanh", TK_LINK_TANH, 1, false},
    {"", "Sigmoid", TK_LINK_SIGMOID, 1, false},
    {"ai.tempo", "Dropout", TK_LINK_DROPOUT, 1, false},
    {"ai.tempo", "DropoutGrad", TK_LINK_DROPOUT_GRAD, 2, false},
};

/* A node as a link, before it is known how the chain comes in. */
typedef struct candidate {
    tk_link_op link;
    uint32_t n_elements;
    bool either;
    tk_pointwise_row row;
} candidate;

static bool is_candidate(tc_node *node, candidate *out) {
    for (size_t i = 0; i < TC_COUNT(link_ops); i++) {
        if (!tc_node_is(node, link_ops[i].domain, link_ops[i].op))
            continue;
        *out = (candidate){link_ops[i].link, link_ops[i].n_elements, link_ops[i].either, 0};
        return strcmp(link_ops[i].op, "Sum") != 0 || node->n_inputs == 2;
    }
    bool is_grad = node->n_inputs > 1;
    if (!node->op)
        return false;
    *out = (candidate){is_grad ? TK_LINK_POINTWISE_GRAD : TK_LINK_POINTWISE, is_grad ? 2 : 1, is_grad,
                       rt_pointwise_row(node)};
    return out->row != TK_POINTWISE_COUNT;
}

/* --- how an operand meets the elements of the chain ------------------------------------------------- */

/* Whether it does as a link can say: dims of size 1, then dims of the chain, then dims of size 1. */
static bool meets(const tc_type *operand, const tc_type *chain, tk_link *link) {
    int begin = 0, end, skipped = chain->rank - operand->rank;
    if (skipped < 0)
        return false;
#define OPERAND_DIM(d) ((d) < skipped ? 1 : operand->dims[(d)-skipped].value)
    end = chain->rank;
    while (begin < end && OPERAND_DIM(begin) == 1)
        begin++;
    while (end > begin && OPERAND_DIM(end - 1) == 1)
        end--;
    link->inner = link->period = 1;
    for (int d = begin; d < chain->rank; d++) {
        if (d < end && OPERAND_DIM(d) != chain->dims[d].value)
            return false;
        *(d < end ? &link->period : &link->inner) *= chain->dims[d].value;
    }
#undef OPERAND_DIM
    return true;
}

static bool is_elements(const tc_value *value, const tc_type *type) {
    return value && value->type && tc_type_is_static(value->type) && tc_type_equal(value->type, type);
}

/* --- chains in the making --------------------------------------------------------------------------- */

typedef struct making {
    tc_node *nodes[TK_CHAIN_LINKS];
    uint32_t entries[TK_CHAIN_LINKS]; /* the operand by which the chain comes in */
    rt_chain chain;
} making;

static bool is_of(const making *m, const tc_node *node) {
    for (int i = 0; i < m->chain.n_links; i++)
        if (m->nodes[i] == node)
            return true;
    return false;
}

/* Whether the results of the chain can come about as late as where `node` is: nobody else reads one before. */
static bool can_wait_for(const making *m, const tc_node *node) {
    for (int i = 0; i < m->chain.n_links; i++)
        for (uint32_t k = 0; k < m->nodes[i]->n_outputs; k++) {
            if (!m->nodes[i]->outputs[k])
                continue;
            TC_FOR_USES(use, m->nodes[i]->outputs[k])
                if (use->user != node && !is_of(m, use->user) && !tc_node_before(node, use->user))
                    return false;
        }
    return true;
}

/* The node as a link behind `m`, or, where that is empty, as a first one, if the chain comes in by operand `entry`. */
static bool link_by(making *m, tc_node *node, const candidate *c, uint32_t entry) {
    const tc_type *type = node->outputs[0]->type;
    rt_link link = {.link = {.op = c->link, .swapped = entry == 1, .row = c->row},
                    .operand = -1,
                    .ratio = -1,
                    .seed = -1,
                    .result = -1,
                    .mask = -1};
    if (!is_elements(tc_input(node, entry), type) || m->chain.n_links == TK_CHAIN_LINKS)
        return false;
    if (c->n_elements == 2) {
        const tc_value *other = tc_input(node, 1 - entry);
        bool is_mask = c->link == TK_LINK_DROPOUT_GRAD;
        if (!other || !other->type || !tc_type_is_static(other->type) ||
            (other->producer && is_of(m, other->producer)) || (!is_mask && other->type->dtype != type->dtype) ||
            !meets(other->type, type, &link.link))
            return false;
    }
    if (c->link == TK_LINK_POINTWISE || c->link == TK_LINK_POINTWISE_GRAD)
        link.link.alpha = rt_pointwise_alpha(node, c->row);
    if (c->link == TK_LINK_DROPOUT)
        link.link.seed.node = (uint32_t)tc_attr_int(node, "node", 0);
    int at = m->chain.n_links++;
    m->nodes[at] = node;
    m->entries[at] = entry;
    m->chain.links[at] = link;
    return true;
}

/* --- the new node --------------------------------------------------------------------------------- */

static int add_operand(tc_node *chain, tc_value *value) {
    tc_node_set_input(chain, chain->n_inputs, value);
    return (int)chain->n_inputs - 1;
}

/* Where the result goes; -1: to the next link alone. Called when the node's other links are no users any more. */
static int take_result(tc_node *chain, tc_node *node, uint32_t index) {
    tc_value *value = tc_output(node, index);
    if (!value || !tc_value_is_used(value))
        return -1;
    tc_node_take_output(node, index);
    tc_node_resize_outputs(chain, chain->n_outputs + 1);
    tc_node_set_output(chain, chain->n_outputs - 1, value);
    return (int)chain->n_outputs - 1;
}

static void add_operands(tc_node *chain, const tc_node *node, uint32_t entry, rt_link *link) {
    tk_link_op op = link->link.op;
    if (op == TK_LINK_DROPOUT) {
        link->ratio = add_operand(chain, tc_input(node, 1));
        link->seed = add_operand(chain, tc_input(node, 2));
        return;
    }
    bool has_operand = op <= TK_LINK_DIV || op == TK_LINK_POINTWISE_GRAD || op == TK_LINK_DROPOUT_GRAD;
    if (has_operand)
        link->operand = add_operand(chain, tc_input(node, 1 - entry));
    if (op == TK_LINK_DROPOUT_GRAD)
        link->ratio = add_operand(chain, tc_input(node, 2));
}

static void replace(tc_graph *graph, making *m, tc_arena *arena, tc_map *chains) {
    int n = m->chain.n_links;
    tc_node *last = m->nodes[n - 1], *chain = tc_node_create(graph, "ai.tempo", "Chain", 0, 1);
    chain->name = tc_node_label(last);
    chain->ordinal = last->ordinal;
    tc_node_insert_after(chain, last);
    add_operand(chain, tc_input(m->nodes[0], m->entries[0]));
    for (int i = 0; i < n; i++)
        add_operands(chain, m->nodes[i], m->entries[i], &m->chain.links[i]);
    tc_node_set_output(chain, 0, tc_node_take_output(last, 0));
    m->chain.links[n - 1].result = 0;
    for (int i = n - 1; i >= 0; i--) { /* the links behind it are gone: what is used, others use */
        rt_link *link = &m->chain.links[i];
        if (i < n - 1)
            link->result = take_result(chain, m->nodes[i], 0);
        link->mask = take_result(chain, m->nodes[i], 1);
        tc_node_erase(m->nodes[i]);
    }
    rt_chain *kept = TC_NEW(arena, rt_chain);
    *kept = m->chain;
    tc_map_set_ptr(chains, chain, kept);
}

/* --- all of them ---------------------------------------------------------------------------------- */

/* The chain that ends with the operand, if the node can be its next link. */
static making *joined(tc_map *ends, tc_node *node, const candidate *c) {
    for (uint32_t entry = 0; entry < (c->either ? 2u : 1u); entry++) {
        making *m = tc_input(node, entry) ? tc_map_get_ptr(ends, tc_input(node, entry)) : NULL;
        if (m && can_wait_for(m, node) && link_by(m, node, c, entry))
            return m;
    }
    return NULL;
}

static making *begun(tc_arena *arena, tc_node *node, const candidate *c) {
    making *m = TC_NEW(arena, making);
    for (uint32_t entry = 0; entry < (c->either ? 2u : 1u); entry++)
        if (link_by(m, node, c, entry))
            return m;
    return NULL;
}

tc_map *rt_fuse_chains(tc_graph *graph, tc_arena *arena, tc_map *apart) {
    tc_arena *scratch = tc_arena_create();
    tc_map *ends = tc_map_create(scratch), *chains = tc_map_create(arena);
    size_t capacity = 0, n = 0;
    making **all = NULL;
    TC_FOR_NODES(node, graph) {
        candidate c;
        const tc_value *result = tc_output(node, 0);
        if (!result || !result->type || !tc_type_is_static(result->type) || !tc_dtype_is_float(result->type->dtype) ||
            tc_value_constant(result) || !is_candidate(node, &c))
            continue;
        making *m = joined(ends, node, &c);
        if (m) {
            tc_map_set_ptr(ends, tc_input(node, m->entries[m->chain.n_links - 1]), NULL);
        } else if ((m = begun(scratch, node, &c))) {
            all = tc_arena_grow(scratch, all, sizeof *all, &capacity, n + 1);
            all[n++] = m;
        }
        if (m && !(apart && tc_map_get_ptr(apart, result)))
            tc_map_set_ptr(ends, result, m);
    }
    for (size_t i = 0; i < n; i++)
        if (all[i]->chain.n_links > 1)
            replace(graph, all[i], arena, chains);
    tc_arena_destroy(scratch);
    return chains;
}
