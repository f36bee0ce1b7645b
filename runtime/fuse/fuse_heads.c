/* fuse_heads.c: removes Transposes around attention that its kernels do not need. */
#include "fuse_heads.h"
#include "compiler/ir/ops.h"
#include <string.h>

typedef struct fuser {
    const tk_table *kernels;
    const tk_queue *queue;
    tc_map *known; /* attention with such kernels -> roles, by node */
} fuser;

static const int64_t by_heads[] = {0, 2, 1, 3}; /* also back */
static const int64_t to_kt[] = {0, 2, 3, 1}, from_kt[] = {0, 3, 1, 2};

/* An operand or result that may have interleaved heads. */
typedef struct role {
    uint32_t index; /* of the node */
    int64_t bit;
    const int64_t *order; /* of the Transpose before an operand, or after a result */
} role;

enum { OPERANDS = 5, RESULTS = 3, Y_AT = 9 };

typedef struct roles {
    role operands[OPERANDS], results[RESULTS];
    uint32_t n_operands, n_results;
} roles;
static const roles of_forward = {
    .operands = {{0, RT_INTERLEAVED_Q, by_heads}, {1, RT_INTERLEAVED_KT, to_kt}, {2, RT_INTERLEAVED_V, by_heads}},
    .results = {{0, RT_INTERLEAVED_Y, by_heads}},
    .n_operands = 3,
    .n_results = 1};
static const roles of_grad = {
    .operands = {{1, RT_INTERLEAVED_Q, by_heads},
                 {2, RT_INTERLEAVED_KT, to_kt},
                 {3, RT_INTERLEAVED_V, by_heads},
                 {0, RT_INTERLEAVED_DOUT, by_heads},
                 {Y_AT, RT_INTERLEAVED_Y, by_heads}},
    .results = {{0, RT_INTERLEAVED_DQ, by_heads}, {1, RT_INTERLEAVED_DKT, from_kt}, {2, RT_INTERLEAVED_DV, by_heads}},
    .n_operands = 5,
    .n_results = 3};

/* --- attention with such kernels -------------------------------------------------------------------- */

static bool is_wanted(const tc_node *node, uint32_t result) {
    return tc_output(node, result) && tc_value_is_used(tc_output(node, result));
}

static bool has_heads(const tc_value *value) {
    return value && value->type && tc_type_is_static(value->type) && value->type->rank == 4;
}

/* Of its op, whatever function the node names. */
static bool is_op(const tc_node *node, const char *op) { return node->op && strcmp(node->op->name, op) == 0; }

/* NULL: it is no such attention, or it keeps or makes a map. */
static const roles *find_roles(const fuser *f, const tc_node *node) {
    const bool is_grad = is_op(node, "DotProductAttentionTiledGrad");
    if (!is_grad && !is_op(node, "DotProductAttention"))
        return NULL;
    for (uint32_t map = is_grad ? 3 : 1; map <= 3; map++)
        if (is_wanted(node, map))
            return NULL;
    const roles *r = is_grad ? &of_grad : &of_forward;
    for (uint32_t i = 0; i < 3; i++)
        if (!has_heads(tc_input(node, r->operands[i].index)))
            return NULL;
    const tc_type *kt = tc_input(node, r->operands[1].index)->type, *v = tc_input(node, r->operands[2].index)->type;
    const tk_attention a = {.d = kt->dims[2].value,
                            .t = kt->dims[3].value,
                            .e = v->dims[3].value,
                            .softcap = (double)tc_attr_float(node, "softcap", 0),
                            .bias_first = tc_attr_int(node, "bias_first", 0) != 0,
                            .dtype = (tk_dtype)kt->dtype};
    return f->kernels->attention_spreads(f->queue, &a) ? r : NULL;
}

static const roles *roles_of(const fuser *f, const tc_node *node) { return tc_map_get_ptr(f->known, node); }

/* --- Transposes ------------------------------------------------------------------------------------- */

static bool is_transpose(const tc_node *node, const int64_t *order) {
    size_t n = 0;
    const int64_t *perm = node && tc_node_is(node, "", "Transpose") ? tc_attr_ints(node, "perm", &n) : NULL;
    return n == 4 && memcmp(perm, order, 4 * sizeof *order) == 0 && has_heads(tc_input(node, 0));
}

/* Whether only Transposes of this kind read the result, and the gradient's operand Y. A transposed result that is an
 * output keeps its name: there is one at most. */
static bool goes_back(const fuser *f, const tc_value *value, const int64_t *order) {
    uint32_t n = 0, n_outputs = 0;
    TC_FOR_USES(use, value) {
        const tc_node *user = use->user;
        if (user->graph != value->graph)
            return false;
        if (is_transpose(user, order)) {
            n++;
            n_outputs += user->outputs[0]->n_graph_outputs > 0;
        } else if (use->index != Y_AT || roles_of(f, user) != &of_grad) {
            return false;
        }
    }
    return n > 0 && n_outputs <= 1 && value->n_graph_outputs == 0;
}

/* Whether attention alone reads the Transpose's result, in operands that can have interleaved heads: K^T with its
 * gradient. */
static bool is_for_attention(const fuser *f, const tc_value *value, const role *as) {
    TC_FOR_USES(use, value) {
        const roles *r = use->user->graph == value->graph ? roles_of(f, use->user) : NULL;
        bool found = false;
        for (uint32_t i = 0; r && i < r->n_operands; i++)
            found = found || (r->operands[i].index == use->index && r->operands[i].bit == as->bit);
        if (!found)
            return false;
        if (r == &of_grad && as->bit == RT_INTERLEAVED_KT && is_wanted(use->user, 1) &&
            !goes_back(f, use->user->outputs[1], from_kt))
            return false;
    }
    return value->n_graph_outputs == 0;
}

/* --- one node --------------------------------------------------------------------------------------- */

static void mark(tc_node *node, int64_t bit) {
    tc_attr_set_int(node, "interleaved", tc_attr_int(node, "interleaved", 0) | bit);
}

/* The node reads the Transpose's operand. */
static void take_operand(const fuser *f, tc_node *node, const role *as) {
    tc_value *value = tc_input(node, as->index);
    tc_node *transpose = value ? value->producer : NULL;
    if (!is_transpose(transpose, as->order) || !is_for_attention(f, value, as))
        return;
    tc_node_set_input(node, as->index, tc_input(transpose, 0));
    mark(node, as->bit);
    if (!tc_value_is_used(value))
        tc_node_erase(transpose);
}

/* The first Transpose's result, or the one that is an output, becomes the node's; it replaces the others. */
static void take_result(const fuser *f, tc_node *node, const role *as) {
    const bool may = as->bit != RT_INTERLEAVED_DKT || (tc_attr_int(node, "interleaved", 0) & RT_INTERLEAVED_KT);
    if (!is_wanted(node, as->index) || !may || !goes_back(f, node->outputs[as->index], as->order))
        return;
    tc_value *plain = tc_node_take_output(node, as->index), *interleaved = NULL;
    TC_FOR_USES(use, plain) {
        const tc_value *made = use->index == 0 && is_transpose(use->user, as->order) ? use->user->outputs[0] : NULL;
        if (made && (!interleaved || made->n_graph_outputs > 0))
            interleaved = use->user->outputs[0];
    }
    tc_node *first = interleaved->producer;
    tc_node_take_output(first, 0);
    tc_node_set_output(node, as->index, interleaved);
    tc_node_erase(first);
    for (tc_use *use = plain->uses, *next; use; use = next) {
        tc_node *user = use->user;
        next = use->next;
        if (use->index == Y_AT) {
            tc_node_set_input(user, Y_AT, interleaved);
            mark(user, RT_INTERLEAVED_Y);
        } else {
            tc_value_replace(user->outputs[0], interleaved);
            tc_node_erase(user);
        }
    }
    mark(node, as->bit);
}

void rt_fuse_heads(tc_graph *graph, const tk_table *kernels, const tk_queue *queue) {
    tc_arena *scratch = tc_arena_create();
    fuser f = {kernels, queue, tc_map_create(scratch)};
    TC_FOR_NODES(node, graph)
        tc_map_set_ptr(f.known, node, (void *)find_roles(&f, node));
    TC_FOR_NODES(node, graph) { /* nodes around it are removed, but not this one */
        const roles *r = roles_of(&f, node);
        for (uint32_t i = 0; r && i < r->n_operands; i++)
            take_operand(&f, node, &r->operands[i]);
        for (uint32_t i = 0; r && i < r->n_results; i++)
            take_result(&f, node, &r->results[i]);
    }
    tc_arena_destroy(scratch);
}
