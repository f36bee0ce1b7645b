/* fuse_chains.c: for a device whose kernels can run a chain of elementwise ops in one walk through memory: nodes of a
 * plan's graph that take each other's results become links of one node. Where they lead to a norm of rows or to its
 * gradient, or continue such a gradient's result, that is the norm's node, else a new one, ai.tempo.Chain. It stands
 * where the last of them stood. A result that only the next link reads is never in memory; the others are results of
 * the node. The chains depend on the graph alone. */
#include "fuse_chains.h"
#include "compiler/ir/ops.h"
#include "fuse_pointwise.h"
#include <string.h>

/* Ops whose one result has the shape of their elements, as links. */
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

/* A node as a link, before its place in the chain is known. */
typedef struct candidate {
    tk_link_op link;
    uint32_t n_elements;
    bool either;
    tk_pointwise_row row;
} candidate;

/* Links know masks of a byte an element. */
static bool has_packed_mask(const tc_node *node) {
    const bool is_grad = tc_node_is(node, TC_TEMPO_DOMAIN, "DropoutGrad");
    const tc_value *mask = is_grad ? tc_input(node, 1) : tc_output(node, 1);
    return mask && tc_value_dtype(mask) == TC_UINT8;
}

static bool is_candidate(tc_node *node, candidate *out) {
    for (size_t i = 0; i < TC_COUNT(link_ops); i++) {
        if (!tc_node_is(node, link_ops[i].domain, link_ops[i].op))
            continue;
        if (has_packed_mask(node))
            return false;
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

/* Whether it broadcasts as a link can: dims of size 1, then dims of the chain, then dims of size 1. */
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

/* --- chains under construction ---------------------------------------------------------------------- */

typedef struct making {
    tc_node *nodes[TK_CHAIN_LINKS];
    uint32_t entries[TK_CHAIN_LINKS]; /* the operand that is the chain's value */
    rt_chain chain;
    bool is_norms; /* it belongs to a norm */
} making;

static tc_node *last_of(const making *m) { return m->nodes[m->chain.n_links - 1]; }

static bool is_of(const making *m, const tc_node *node) {
    for (int i = 0; i < m->chain.n_links; i++)
        if (m->nodes[i] == node)
            return true;
    return false;
}

/* Whether results of `of` can be made as late as where `node` is: no node but that and links of `m` reads one
 * before. */
static bool can_be_late(const tc_node *of, const making *m, const tc_node *node) {
    for (uint32_t k = 0; k < of->n_outputs; k++) {
        if (!of->outputs[k])
            continue;
        TC_FOR_USES(use, of->outputs[k])
            if (use->user != node && !is_of(m, use->user) && !tc_node_before(node, use->user))
                return false;
    }
    return true;
}

/* The same of all results of the chain. */
static bool can_wait_for(const making *m, const tc_node *node) {
    for (int i = 0; i < m->chain.n_links; i++)
        if (!can_be_late(m->nodes[i], m, node))
            return false;
    return true;
}

/* The node as a link after `m`, or, where that is empty, as a first one, if operand `entry` is the chain's value. */
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

/* The index of the result; -1: only the next link reads it. Called when the node's other links are no users any
 * more. */
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

/* Makes the nodes links of `to`. The last one's result goes where `last` says; -1: to its users. */
static void take_links(tc_node *to, making *m, rt_chain *kept, int last) {
    for (int i = 0; i < m->chain.n_links; i++)
        add_operands(to, m->nodes[i], m->entries[i], &m->chain.links[i]);
    for (int i = m->chain.n_links - 1; i >= 0; i--) { /* the links after it are gone: remaining users are other nodes */
        rt_link *link = &m->chain.links[i];
        bool is_placed = i == m->chain.n_links - 1 && last >= 0;
        link->result = is_placed ? last : take_result(to, m->nodes[i], 0);
        link->mask = take_result(to, m->nodes[i], 1);
        tc_node_erase(m->nodes[i]);
    }
    *kept = m->chain;
}

static rt_chains *chains_of(tc_node *node, tc_arena *arena, tc_map *chains) {
    rt_chains *kept = tc_map_get_ptr(chains, node);
    if (kept)
        return kept;
    kept = TC_NEW(arena, rt_chains);
    kept->between = -1;
    tc_map_set_ptr(chains, node, kept);
    return kept;
}

static void replace(tc_graph *graph, making *m, tc_arena *arena, tc_map *chains) {
    tc_node *last = last_of(m), *chain = tc_node_create(graph, "ai.tempo", "Chain", 0, 1);
    chain->name = tc_node_label(last);
    chain->ordinal = last->ordinal;
    tc_node_insert_after(chain, last);
    add_operand(chain, tc_input(m->nodes[0], m->entries[0]));
    tc_node_set_output(chain, 0, tc_node_take_output(last, 0));
    take_links(chain, m, &chains_of(chain, arena, chains)->before, 0);
}

/* --- around norms --------------------------------------------------------------------------------- */

static bool is_norm(const tc_node *node, bool gradient) {
    static const char *const ops[2][4] = {
        {"LayerNormalization", "LayerNormalizationXhat", "RMSNormalization", "RMSNormalizationXhat"},
        {"LayerNormalizationGrad", "LayerNormalizationXhatGrad", "RMSNormalizationGrad", "RMSNormalizationXhatGrad"}};
    for (size_t i = 0; node->op && i < TC_COUNT(ops[gradient]); i++)
        if (strcmp(node->op->name, ops[gradient][i]) == 0)
            return true;
    return false;
}

/* Its chains' operands and results follow its own. */
static rt_chains *begin_norm(tc_node *norm, tc_arena *arena, tc_map *chains) {
    if (norm->n_inputs < RT_NORM_OPERANDS)
        tc_node_set_input(norm, RT_NORM_OPERANDS - 1, NULL);
    if (norm->n_outputs < RT_NORM_RESULTS)
        tc_node_resize_outputs(norm, RT_NORM_RESULTS);
    return chains_of(norm, arena, chains);
}

static bool takes_links(const making *m, bool of_gradient) {
    for (int i = 0; i < m->chain.n_links; i++)
        if (!tk_norm_takes_link(&m->chain.links[i].link, of_gradient))
            return false;
    return !m->is_norms;
}

/* Whether a link reads a result of `node`, other than the first link as the chain's value. */
static bool reads_besides(const making *m, const tc_node *node) {
    for (int i = 0; i < m->chain.n_links; i++)
        for (uint32_t k = 0; k < m->nodes[i]->n_inputs; k++)
            if (tc_input(m->nodes[i], k) && tc_input(m->nodes[i], k)->producer == node && (i > 0 || k != m->entries[0]))
                return true;
    return false;
}

/* The chain whose last result only the norm reads, as operand 0. */
static making *before_norm(tc_map *ends, const tc_node *norm, bool gradient) {
    making *m = tc_input(norm, 0) ? tc_map_get_ptr(ends, tc_input(norm, 0)) : NULL;
    for (uint32_t i = 1; m && i < norm->n_inputs; i++)
        if (tc_input(norm, i) && tc_input(norm, i)->producer && is_of(m, tc_input(norm, i)->producer))
            return NULL;
    return m && takes_links(m, gradient) && can_wait_for(m, norm) ? m : NULL;
}

static void put_before(tc_node *norm, making *m, tc_arena *arena, tc_map *chains) {
    rt_chains *kept = begin_norm(norm, arena, chains);
    tc_node_set_input(norm, 0, tc_input(m->nodes[0], m->entries[0]));
    take_links(norm, m, &kept->before, -1);
    m->is_norms = true;
}

/* The norm's gradient whose result the chain begins with, if all its results can be made where the chain ends. */
static tc_node *norm_behind(const making *m, const tc_map *averaged) {
    const tc_value *first = tc_input(m->nodes[0], m->entries[0]);
    tc_node *norm = first->producer;
    bool is_one =
        norm && norm->outputs[0] == first && is_norm(norm, true) && !(averaged && tc_map_get_ptr(averaged, first));
    return is_one && takes_links(m, false) && !reads_besides(m, norm) && can_be_late(norm, m, last_of(m)) ? norm : NULL;
}

static void put_after(tc_node *norm, making *m, tc_arena *arena, tc_map *chains) {
    rt_chains *kept = begin_norm(norm, arena, chains);
    tc_value *first = tc_node_take_output(norm, 0);
    tc_node_move_before(norm, last_of(m));
    tc_node_set_output(norm, 0, tc_node_take_output(last_of(m), 0));
    kept->between = (int)norm->n_outputs;
    tc_node_set_output(norm, norm->n_outputs, first);
    take_links(norm, m, &kept->after, 0);
    m->is_norms = true;
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

/* A new chain, beginning with the result of a norm's gradient, where that is an operand. */
static making *begun(tc_arena *arena, tc_node *node, const candidate *c) {
    making *m = TC_NEW(arena, making);
    const tc_value *second = c->either ? tc_input(node, 1) : NULL;
    uint32_t first = second && second->producer && is_norm(second->producer, true);
    for (uint32_t k = 0; k < (c->either ? 2u : 1u); k++)
        if (link_by(m, node, c, k ^ first))
            return m;
    return NULL;
}

tc_map *rt_fuse_chains(tc_graph *graph, tc_arena *arena, tc_map *averaged) {
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
        if (m && !(averaged && tc_map_get_ptr(averaged, result)))
            tc_map_set_ptr(ends, result, m);
    }
    TC_FOR_NODES(node, graph) {
        bool gradient = is_norm(node, true);
        making *m = gradient || is_norm(node, false) ? before_norm(ends, node, gradient) : NULL;
        if (m)
            put_before(node, m, arena, chains);
    }
    for (size_t i = 0; i < n; i++) {
        tc_node *norm = all[i]->is_norms ? NULL : norm_behind(all[i], averaged);
        if (norm)
            put_after(norm, all[i], arena, chains);
        else if (!all[i]->is_norms && all[i]->chain.n_links > 1)
            replace(graph, all[i], arena, chains);
    }
    tc_arena_destroy(scratch);
    return chains;
}
