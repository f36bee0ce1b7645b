/* parameter_uses.c: uses of an initializer -> the parameters they meant before the export.
 * - PyTorch's dynamo exporter keeps the call that a node came from in its metadata (pkg.torch.onnx.fx_node):
 * operands that are parameters are written %p_m_encoder_layer_0_query_bias there. Nodes whose calls share no
 * parameter mean different ones.
 * - Its TorchScript exporter writes m.layer.1.bias = Identity (m.layer.0.bias) if it has merged two, and shares
 * parameters that the model shares.
 * - If a file says nothing, and all elements are equal, the weight nearest to each use decides: the biases of two
 * layers are next to different weights, while a layer that is used twice has the same weights near both uses.
 * Distance is measured up from the node's other operands and down from its results, and the path counts: the biases
 * of queries and keys reach one weight by different paths. */
#include "parameter_uses.h"
#include "compiler/ir/ops.h"
#include "union_find.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */
bool tc_name_is_generated(const char *name) {
    static const char *const stems[] = {"",        "_",        "val_", "t_", "const_", "constant_", "initializer_",
                                        "tensor_", "Constant_"};
    if (strncmp(name, "onnx::", 6) == 0)
        return true;
    size_t n = strlen(name), digits = n;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    for (size_t i = 0; digits < n && i < TC_COUNT(stems); i++)
        if (strlen(stems[i]) == digits && strncmp(name, stems[i], digits) == 0)
            return true;
    return false;
}

/* --- names of parameters ---------------------------------------------------------------------- */
typedef struct names {
    const char **items;
    size_t n, cap;
    tc_map *seen;
} names;

static void add_name(tc_arena *arena, names *list, const char *name) {
    if (!list->seen)
        list->seen = tc_map_create(arena);
    if (tc_map_get(list->seen, name))
        return;
    tc_map_set(list->seen, name, list);
    list->items = tc_arena_grow(arena, list->items, sizeof *list->items, &list->cap, list->n + 1);
    list->items[list->n++] = name;
}

static bool is_torchscript(const tc_node *node) { return node->name[0] == '/'; }

/* TorchScript's mark for a parameter that equals another: a node outside of all modules, for nodes of modules. */
static bool is_merge_mark(const tc_node *node) {
    const tc_value *result = tc_output(node, 0);
    if (!tc_node_is(node, "", "Identity") || !result || result->n_graph_outputs || tc_name_is_generated(result->name) ||
        strncmp(node->name, "Identity", 8) != 0)
        return false;
    bool read = result->uses != NULL;
    TC_FOR_USES(use, result)
        read = read && is_torchscript(use->user);
    return read || strchr(result->name, '.');
}

static void add_folded(tc_arena *arena, tc_torch_program *program, const tc_value *value, names *list) {
    size_t n;
    const char **from = tc_torch_folded_from(arena, value, &n);
    for (size_t i = 0; i < n; i++)
        if (tc_torch_kind_named(program, from[i]) == TC_TORCH_PARAMETER)
            add_name(arena, list, from[i]);
}

const char **tc_parameter_names(tc_arena *arena, tc_torch_program *program, const tc_value *value, size_t *out_n,
                                tc_stored *out_stored) {
    names list = {0};
    bool torchscript = !tc_name_is_generated(value->name);
    tc_stored stored = TC_STORED_UNTOLD;
    size_t used = 0;
    TC_FOR_USES(use, value) {
        tc_torch_operand operand = tc_torch_operand_of(program, use->user, use->index);
        tc_stored here = !operand.layout      ? TC_STORED_UNTOLD
                         : operand.transposed ? TC_STORED_TRANSPOSED
                                              : TC_STORED_AS_IS;
        if (operand.kind == TC_OPERAND_INPUT)
            add_name(arena, &list, operand.inputs[0]->target);
        stored = used++ && here != stored ? TC_STORED_UNTOLD : here;
        torchscript = torchscript && is_torchscript(use->user);
    }
    *out_stored = list.n == 1 ? stored : TC_STORED_UNTOLD;
    if (tc_torch_input_of(program, value))
        add_name(arena, &list, value->name);
    add_folded(arena, program, value, &list);
    if (list.n == 0 && torchscript && value->uses)
        add_name(arena, &list, value->name);
    *out_n = list.n;
    return list.items;
}

/* --- uses ------------------------------------------------------------------------------------- */
typedef struct uses {
    tc_arena *arena;
    tc_torch_program *program;
    const tc_value *value;
    tc_use **items; /* in the order of the nodes */
    size_t *parent; /* of a forest: uses in one tree mean one parameter */
    tc_torch_operand *operands;
    size_t n, cap;
    bool marked; /* some are marks of TorchScript's */
} uses;

static int compare_uses(const void *x, const void *y) {
    const tc_use *a = *(tc_use *const *)x, *b = *(tc_use *const *)y;
    if (a->user == b->user)
        return a->index < b->index ? -1 : a->index > b->index;
    return tc_node_before(a->user, b->user) ? -1 : 1;
}

/* The exporter writes a Split for the parts of a parameter, without a call. Their Transpose comes from a linear
 * layer; equal Transposes are shared, too. */
static bool is_of_parts(const uses *u, const tc_use *use) {
    const tc_node *split = use->value == u->value ? use->user : use->value->producer;
    return tc_node_is(split, "", "Split") && !tc_torch_has_call(u->program, split) &&
           (split == use->user || tc_node_is(use->user, "", "Transpose"));
}

/* A pass inserted the node between a parameter and its uses: it has no call, and its other operands are constants. */
static bool is_inserted(const uses *u, const tc_use *use) {
    const tc_node *node = use->user;
    bool parts = is_of_parts(u, use),
         rest = (parts || (node->n_outputs == 1 && !tc_torch_has_call(u->program, node))) && !tc_has_nested(node) &&
                !is_merge_mark(node) && tc_torch_has_calls(u->program);
    for (uint32_t i = 0; rest && i < node->n_outputs; i++)
        rest = node->outputs[i] && !node->outputs[i]->n_graph_outputs;
    for (uint32_t i = 0; rest && i < node->n_inputs; i++)
        rest = i == use->index || !tc_input(node, i) || tc_value_constant(tc_input(node, i));
    return rest;
}

/* A node that asks for its gradient, or updates it: it means the same parameter as the uses in the model. */
static bool is_about_parameter(const tc_node *node) {
    static const char *const ops[] = {"Gradient", "Adagrad", "Adam", "AdamW", "Lamb", "Momentum", "Sgd"};
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_node_is(node, TC_TEMPO_DOMAIN, ops[i]))
            return true;
    return false;
}

/* The uses of the value, and of the results of inserted nodes; false if a nested graph is among them. */
static bool list_uses(uses *u) {
    tc_map *seen = tc_map_create(u->arena);
    const tc_value **values = NULL;
    size_t n = 0, cap = 0;
    values = tc_arena_grow(u->arena, values, sizeof *values, &cap, 1);
    values[n++] = u->value;
    for (size_t at = 0; at < n; at++) {
        TC_FOR_USES(use, values[at]) {
            if (use->user->graph != u->value->graph)
                return false;
            if (is_about_parameter(use->user))
                continue;
            if (!is_inserted(u, use)) {
                u->items = tc_arena_grow(u->arena, u->items, sizeof *u->items, &u->cap, u->n + 1);
                u->items[u->n++] = use;
            } else if (!tc_map_get_ptr(seen, use->user)) {
                tc_map_set_ptr(seen, use->user, u);
                values = tc_arena_grow(u->arena, values, sizeof *values, &cap, n + use->user->n_outputs);
                for (uint32_t i = 0; i < use->user->n_outputs; i++)
                    values[n++] = use->user->outputs[i];
            }
        }
    }
    return true;
}

static void prepare(uses *u) {
    u->parent = TC_NEW_ARRAY(u->arena, size_t, u->n + 1);
    u->operands = TC_NEW_ARRAY(u->arena, tc_torch_operand, u->n + 1);
    qsort(u->items, u->n, sizeof *u->items, compare_uses);
    for (size_t i = 0; i < u->n; i++) {
        u->parent[i] = i;
        u->operands[i] = tc_torch_operand_of(u->program, u->items[i]->user, u->items[i]->index);
    }
}

/* Joins uses that share a key; keys live in the arena. */
static void join_by(uses *u, tc_map *seen, const char *key, size_t i) {
    size_t *first = tc_map_get(seen, key);
    if (first) {
        tc_set_join(u->parent, *first, i);
        return;
    }
    first = TC_NEW(u->arena, size_t);
    *first = i;
    tc_map_set(seen, key, first);
}

/* --- the nearest weight ----------------------------------------------------------------------- */
enum { NEAR = 48 }; /* values examined on the way */

typedef struct step {
    const tc_value *value;
    uint64_t way;
} step;
typedef struct walk {
    step steps[NEAR];
    size_t n;
} walk;

static void go(walk *w, const tc_value *value, uint64_t way, const tc_node *node, uint32_t index) {
    if (!value || w->n == NEAR)
        return;
    way = tc_hash_bytes(node->op_type, strlen(node->op_type), way * 31 + index);
    w->steps[w->n++] = (step){value, way};
}

static bool is_anchor(const tc_value *value, const tc_value *itself) {
    return value != itself && value->init && value->init->rank >= 2 && tc_dtype_is_float(value->init->dtype);
}

static const char *key_of(tc_arena *arena, const char *direction, const step *at) {
    return tc_arena_printf(arena, "%s %u %llx", direction, at->value->id, (unsigned long long)at->way);
}

/* The first weight met upwards from the node's other operands; NULL: none near. */
static const char *anchor_above(tc_arena *arena, const tc_use *use) {
    walk w = {0};
    const tc_node *node = use->user;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (i != use->index)
            go(&w, tc_input(node, i), 0, node, i);
    for (size_t at = 0; at < w.n; at++) {
        const tc_value *value = w.steps[at].value;
        if (is_anchor(value, use->value))
            return key_of(arena, "above", &w.steps[at]);
        for (uint32_t i = 0; value->producer && i < value->producer->n_inputs; i++)
            go(&w, tc_input(value->producer, i), w.steps[at].way, value->producer, i);
    }
    return NULL;
}

/* The other operands of a node on the way down, or what they are views of. */
static const tc_value *weight_beside(const tc_node *node, uint32_t index, const tc_value *itself) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = i == index ? NULL : tc_input(node, i);
        while (value && value->producer &&
               (tc_node_is(value->producer, "", "Transpose") || tc_node_is(value->producer, "", "Identity")))
            value = tc_input(value->producer, 0);
        if (value && is_anchor(value, itself))
            return value;
    }
    return NULL;
}

/* The same downwards; at equal distance the weight of the first node. */
static const char *anchor_below(tc_arena *arena, const tc_use *use) {
    walk w = {0};
    const tc_node *first = NULL;
    step best = {0};
    go(&w, tc_output(use->user, 0), 0, use->user, use->index);
    for (size_t at = 0, level = w.n; at < w.n; at++) {
        if (at == level) { /* all values of one distance have been examined */
            if (first)
                break;
            level = w.n;
        }
        TC_FOR_USES(next, w.steps[at].value) {
            const tc_value *weight = weight_beside(next->user, next->index, use->value);
            if (next->user->graph == use->user->graph && weight && (!first || tc_node_before(next->user, first))) {
                first = next->user;
                best = (step){weight, w.steps[at].way * 31 + next->index};
            }
            go(&w, tc_output(next->user, 0), w.steps[at].way, next->user, next->index);
        }
    }
    return first ? key_of(arena, "below", &best) : NULL;
}

/* Uses without a weight near them stay with the first one. */
static void join_by_structure(uses *u) {
    tc_map *seen = tc_map_create(u->arena);
    for (size_t i = 0; i < u->n; i++) {
        const char *above = anchor_above(u->arena, u->items[i]), *below = anchor_below(u->arena, u->items[i]);
        if (above)
            join_by(u, seen, above, i);
        if (below)
            join_by(u, seen, below, i);
        if (!above && !below)
            tc_set_join(u->parent, 0, i);
    }
}

/* --- from records of the file ----------------------------------------------------------------- */
static bool join_by_marks(uses *u) {
    size_t unmarked = SIZE_MAX;
    for (size_t i = 0; i < u->n; i++) {
        if (is_merge_mark(u->items[i]->user))
            u->marked = true;
        else if (unmarked == SIZE_MAX)
            unmarked = i;
    }
    for (size_t i = 0; u->marked && i < u->n; i++)
        if (!is_merge_mark(u->items[i]->user))
            tc_set_join(u->parent, unmarked, i);
    return u->marked;
}

static bool is_own(const uses *u, const tc_torch_operand *operand) {
    for (size_t k = 0; k < operand->n; k++)
        if (tc_torch_is_input(u->program, u->value, operand->inputs[k]))
            return true;
    return false;
}

/* The use whose tree keeps the initializer: one that means it by name; else one without a record; else, if it has no
 * parameter's name, the exporter's own constant; else the first. SIZE_MAX: none of them. */
static size_t find_home(const uses *u) {
    static const tc_torch_operand_kind next[] = {TC_OPERAND_UNTOLD, TC_OPERAND_CONSTANT};
    bool named = tc_torch_input_of(u->program, u->value) != NULL;
    for (size_t i = 0; i < u->n; i++)
        if (is_own(u, &u->operands[i]))
            return i;
    for (size_t k = 0; k < TC_COUNT(next); k++)
        for (size_t i = 0; i < u->n; i++)
            if (u->operands[i].kind == next[k] && !(named && next[k] == TC_OPERAND_CONSTANT))
                return i;
    return named ? SIZE_MAX : 0;
}

/* Uses without a record stay with the initializer. False: the calls do not separate anything. */
static bool join_by_calls(uses *u, size_t home) {
    tc_map *seen = tc_map_create(u->arena);
    bool inputs = false, constants = false;
    for (size_t i = 0; i < u->n; i++) {
        const tc_torch_operand *operand = &u->operands[i];
        inputs = inputs || operand->n > 0;
        constants = constants || operand->kind == TC_OPERAND_CONSTANT;
        for (size_t k = 0; k < operand->n; k++)
            join_by(u, seen, tc_arena_printf(u->arena, "=%s", operand->inputs[k]->target), i);
        if (operand->kind == TC_OPERAND_CONSTANT)
            join_by(u, seen, "constant", i);
        if (operand->kind == TC_OPERAND_UNTOLD)
            tc_set_join(u->parent, home, i);
    }
    return inputs || (constants && u->value->learned == TC_LEARNED_YES);
}

static void join_all(uses *u) {
    for (size_t i = 1; i < u->n; i++)
        tc_set_join(u->parent, 0, i);
}

/* --- groups ----------------------------------------------------------------------------------- */
static tc_learned learned_as(tc_torch_kind kind) { return kind == TC_TORCH_PARAMETER ? TC_LEARNED_YES : TC_LEARNED_NO; }

/* Adds the records of one use. */
static void describe(const uses *u, size_t i, tc_use_group *g) {
    const tc_torch_operand *operand = &u->operands[i];
    const tc_node *node = u->items[i]->user;
    if (is_merge_mark(node))
        g->name = node->outputs[0]->name;
    if (operand->kind == TC_OPERAND_CONSTANT)
        g->learned = TC_LEARNED_NO;
    if (operand->kind == TC_OPERAND_INPUT && !g->name) {
        g->name = operand->inputs[0]->target;
        g->learned = learned_as(operand->inputs[0]->kind);
    }
    for (size_t k = 0; k < operand->n && operand->kind == TC_OPERAND_EITHER && !g->name; k++) {
        tc_learned one = learned_as(operand->inputs[k]->kind);
        g->learned = k && one != g->learned ? TC_LEARNED_UNKNOWN : one;
    }
}

static tc_use_groups make_groups(uses *u, bool recorded, size_t home) {
    tc_use_groups result = {
        .recorded = recorded, .groups = TC_NEW_ARRAY(u->arena, tc_use_group, u->n + 1), .homeless = home == SIZE_MAX};
    size_t *group = TC_NEW_ARRAY(u->arena, size_t, u->n + 1), *count = TC_NEW_ARRAY(u->arena, size_t, u->n + 1);
    for (size_t i = 0; i < u->n; i++) {
        size_t root = tc_set_of(u->parent, i);
        if (root == i)
            group[i] = result.n++;
        count[group[root]]++;
        group[i] = group[root];
    }
    for (size_t g = 0; g < result.n; g++)
        result.groups[g].uses = TC_NEW_ARRAY(u->arena, tc_use *, count[g] + 1);
    for (size_t i = 0; i < u->n; i++) {
        tc_use_group *g = &result.groups[group[i]];
        g->uses[g->n++] = u->items[i];
        describe(u, i, g);
    }
    size_t at = result.homeless ? 0 : group[home];
    tc_use_group first = result.groups[at];
    memmove(&result.groups[1], &result.groups[0], at * sizeof first);
    result.groups[0] = first;
    return result;
}

static size_t first_unmarked(const uses *u) {
    for (size_t i = 0; i < u->n; i++)
        if (!is_merge_mark(u->items[i]->user))
            return i;
    return 0;
}

tc_use_groups tc_group_uses(tc_arena *arena, tc_torch_program *program, const tc_value *value, bool uniform) {
    uses u = {.arena = arena, .program = program, .value = value};
    if (!list_uses(&u) || u.n == 0)
        return (tc_use_groups){0};
    prepare(&u);
    if (join_by_marks(&u))
        return make_groups(&u, true, first_unmarked(&u));
    size_t home = find_home(&u);
    if (tc_torch_has_calls(program)) {
        bool recorded = join_by_calls(&u, home);
        if (!recorded)
            join_all(&u);
        return make_groups(&u, recorded, recorded ? home : 0);
    }
    if (!uniform || is_torchscript(u.items[0]->user))
        join_all(&u);
    else
        join_by_structure(&u);
    return make_groups(&u, false, 0);
}
