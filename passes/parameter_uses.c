/* parameter_uses.c: uses of an initializer -> the parameters they meant before the export.
 * - PyTorch's dynamo exporter keeps the call that a node came from in its metadata (pkg.torch.onnx.fx_node): the
 * operands that are parameters read %p_m_encoder_layer_0_query_bias there. Nodes whose calls share no parameter mean
 * different ones.
 * - Its TorchScript exporter writes m.layer.1.bias = Identity (m.layer.0.bias) where it has merged two, and shares what
 * the model shares.
 * - Where a file tells nothing, and all elements are equal, the weight nearest to each use decides: the biases of two
 * layers stand beside different weights, a layer that is used twice brings its own weights along. Near is measured up
 * from the node's other operands and down from its results, and the way there counts: the biases of queries and keys
 * reach one weight by different ways. */
#include "parameter_uses.h"
#include "../compiler/onnx_io.h"
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

/* The exporter's spelling of a parameter's name in calls: lower case, with an underscore for whatever is no letter or
 * digit. */
static bool mangles_to(const char *name, size_t n, const char *token) {
    for (size_t i = 0; i < n; i++) {
        int c = isalnum((unsigned char)name[i]) ? tolower((unsigned char)name[i]) : '_';
        if (c != tolower((unsigned char)token[i])) /* also where the token ends */
            return false;
    }
    return true;
}

static bool is_name_of(const char *name, const char *token) {
    return strlen(name) == strlen(token) && mangles_to(name, strlen(name), token);
}

/* "m_encoder_layer_0_query_bias" -> "m.encoder.layer.0.query.bias": the longest of the modules around the node that
 * begins it, which the metadata list as ['', 'm', 'm.encoder', ...]; else the token. */
static const char *spell_out(tc_arena *arena, const tc_node *node, const char *token) {
    const char *scopes = tc_node_metadata(node, "pkg.torch.onnx.name_scopes"), *best = NULL;
    size_t longest = 0;
    for (const char *at = scopes ? strchr(scopes, '\'') : NULL, *end; at; at = strchr(end + 1, '\'')) {
        end = strchr(at + 1, '\'');
        if (!end)
            break;
        size_t n = (size_t)(end - at) - 1;
        if (n > longest && n < strlen(token) && mangles_to(at + 1, n, token) && token[n] == '_')
            best = at + 1, longest = n;
    }
    return best ? tc_arena_printf(arena, "%.*s.%s", (int)longest, best, token + longest + 1) : token;
}

/* --- what calls say --------------------------------------------------------------------------- */
typedef struct names {
    const char **items;
    size_t n, cap;
} names;

static void add_name(tc_arena *arena, names *list, const char *name) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], name) == 0)
            return;
    list->items = tc_arena_grow(arena, list->items, sizeof *list->items, &list->cap, list->n + 1);
    list->items[list->n++] = name;
}

/* Adds the parameters of the call that the node came from, without %p_; false where the file keeps no calls. */
static bool add_parameters(tc_arena *arena, names *list, const tc_node *node) {
    const char *call = tc_node_metadata(node, "pkg.torch.onnx.fx_node");
    for (const char *at = call ? strstr(call, "%p_") : NULL; at; at = strstr(at, "%p_")) {
        at += 3;
        size_t n = 0;
        while (isalnum((unsigned char)at[n]) || at[n] == '_')
            n++;
        if (n)
            add_name(arena, list, tc_arena_strndup(arena, at, n));
    }
    return call != NULL;
}

static bool is_torchscript(const tc_node *node) { return node->name[0] == '/'; }

/* What TorchScript's exporter writes for a parameter that equals another. */
static bool is_merge_mark(const tc_node *node) {
    const tc_value *result = tc_output(node, 0);
    return tc_node_is(node, "", "Identity") && result && !result->n_graph_outputs && strchr(result->name, '.') &&
           !tc_name_is_generated(result->name) && strncmp(node->name, "Identity", 8) == 0;
}

const char **tc_parameter_names(tc_arena *arena, const tc_value *value, size_t *out_n) {
    names list = {0};
    bool torchscript = !tc_name_is_generated(value->name);
    TC_FOR_USES(use, value) {
        add_parameters(arena, &list, use->user);
        torchscript = torchscript && is_torchscript(use->user);
    }
    if (list.n == 0 && torchscript && value->uses)
        add_name(arena, &list, value->name);
    *out_n = list.n;
    return list.items;
}

/* --- uses ------------------------------------------------------------------------------------- */
typedef struct uses {
    tc_arena *arena;
    const tc_value *value;
    tc_use **items; /* in the order of the nodes */
    size_t *parent; /* of a forest: uses in one tree mean one parameter */
    names *named;   /* what the use's call names */
    size_t n;
    bool marked; /* some are marks of TorchScript's */
} uses;

static int compare_uses(const void *x, const void *y) {
    const tc_use *a = *(tc_use *const *)x, *b = *(tc_use *const *)y;
    if (a->user == b->user)
        return a->index < b->index ? -1 : a->index > b->index;
    return tc_node_before(a->user, b->user) ? -1 : 1;
}

/* False where a nested graph uses the value. */
static bool list_uses(uses *u) {
    TC_FOR_USES(use, u->value)
        u->n++;
    u->items = TC_NEW_ARRAY(u->arena, tc_use *, u->n + 1);
    u->parent = TC_NEW_ARRAY(u->arena, size_t, u->n + 1);
    u->named = TC_NEW_ARRAY(u->arena, names, u->n + 1);
    size_t at = 0;
    TC_FOR_USES(use, u->value) {
        if (use->user->graph != u->value->graph)
            return false;
        u->parent[at] = at;
        u->items[at++] = use;
    }
    qsort(u->items, u->n, sizeof *u->items, compare_uses);
    return true;
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
enum { NEAR = 48 }; /* values looked at on the way */

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

/* The same downwards; of several at the same distance that of the first node. */
static const char *anchor_below(tc_arena *arena, const tc_use *use) {
    walk w = {0};
    const tc_node *first = NULL;
    step best = {0};
    go(&w, tc_output(use->user, 0), 0, use->user, use->index);
    for (size_t at = 0, level = w.n; at < w.n; at++) {
        if (at == level) { /* all of one distance have been seen */
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

/* Uses with no weight near them stay with the first one. */
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

/* --- by what the file tells ------------------------------------------------------------------- */
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

/* Uses whose calls name no parameter stay with the first one that names one. */
static bool join_by_calls(uses *u, bool *out_calls) {
    tc_map *seen = tc_map_create(u->arena);
    size_t naming = SIZE_MAX;
    for (size_t i = 0; i < u->n; i++) {
        *out_calls = add_parameters(u->arena, &u->named[i], u->items[i]->user) || *out_calls;
        for (size_t k = 0; k < u->named[i].n; k++)
            join_by(u, seen, u->named[i].items[k], i);
        if (u->named[i].n && naming == SIZE_MAX)
            naming = i;
    }
    for (size_t i = 0; naming != SIZE_MAX && i < u->n; i++)
        if (u->named[i].n == 0)
            tc_set_join(u->parent, naming, i);
    return naming != SIZE_MAX;
}

static void join_all(uses *u) {
    for (size_t i = 1; i < u->n; i++)
        tc_set_join(u->parent, 0, i);
}

/* --- groups ----------------------------------------------------------------------------------- */
static const char *leaf(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The one parameter of the call that is called as the initializer is: its bias if that is a bias. */
static const char *name_of_use(const uses *u, size_t i) {
    const tc_node *node = u->items[i]->user;
    const char *found = NULL, *last = leaf(u->value->name);
    if (is_merge_mark(node))
        return node->outputs[0]->name;
    for (size_t k = 0; k < u->named[i].n; k++) {
        const char *token = u->named[i].items[k];
        size_t n = strlen(token), m = strlen(last);
        bool fits = u->named[i].n == 1 || (n > m && token[n - m - 1] == '_' && is_name_of(last, token + n - m));
        if (fits && found)
            return NULL;
        found = fits ? token : found;
    }
    return found ? spell_out(u->arena, node, found) : NULL;
}

static bool names_itself(const uses *u, size_t i) {
    for (size_t k = 0; k < u->named[i].n; k++)
        if (is_name_of(u->value->name, u->named[i].items[k]))
            return true;
    return false;
}

static tc_use_groups make_groups(uses *u, bool told) {
    tc_use_groups result = {.told = told, .groups = TC_NEW_ARRAY(u->arena, tc_use_group, u->n + 1)};
    size_t *group = TC_NEW_ARRAY(u->arena, size_t, u->n + 1), *count = TC_NEW_ARRAY(u->arena, size_t, u->n + 1),
           home = 0;
    for (size_t i = 0; i < u->n; i++) {
        size_t root = tc_set_of(u->parent, i);
        if (root == i)
            group[i] = result.n++;
        count[group[root]]++;
        group[i] = group[root];
    }
    for (size_t g = 0; g < result.n; g++)
        result.groups[g].uses = TC_NEW_ARRAY(u->arena, tc_use *, count[g] + 1);
    bool found = false;
    for (size_t i = 0; i < u->n; i++) {
        tc_use_group *g = &result.groups[group[i]];
        g->uses[g->n++] = u->items[i];
        if (!g->name)
            g->name = name_of_use(u, i);
        bool own = u->marked ? !is_merge_mark(u->items[i]->user) : names_itself(u, i);
        if (own && !found)
            home = group[i], found = true;
    }
    tc_use_group first = result.groups[home];
    memmove(&result.groups[1], &result.groups[0], home * sizeof first);
    result.groups[0] = first;
    return result;
}

tc_use_groups tc_group_uses(tc_arena *arena, const tc_value *value, bool uniform) {
    uses u = {.arena = arena, .value = value};
    bool calls = false, told = false;
    if (!list_uses(&u) || u.n == 0)
        return (tc_use_groups){0};
    told = join_by_marks(&u) || join_by_calls(&u, &calls);
    if (!told && (calls || !uniform || is_torchscript(u.items[0]->user)))
        join_all(&u);
    else if (!told)
        join_by_structure(&u);
    return make_groups(&u, told);
}
