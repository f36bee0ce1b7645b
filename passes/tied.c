/* tied.c: weights whose ties the exporter changed. Exporters store one parameter several times (a tied decoder beside
 * its transpose), so that training would part what is one, and store equal parameters once (the zero biases of all
 * layers), so that training would tie what is several. Neither changes the loss, so nobody sees it before the model has
 * been trained. Both are warned of; --retie and --untie mend them.
 *
 * Equal numbers alone say little: layers may start as copies of each other. What the file tells of the parameters
 * (parameter_uses.h) comes first; weights that it calls by different names are let be. Elements that are all equal are
 * no sign of a tie either: every fresh bias is zero. Without the weights' data, or a single loss, there is nothing to
 * find. */
#include "equal_weights.h"
#include "choose_loss.h"
#include "parameter_uses.h"
#include "trainable.h"
#include "union_find.h"
#include <string.h>

enum { FEW = TC_LIST_FEW }; /* findings told one by one; more are summed up */

typedef struct weights {
    tc_value **values; /* initializers of the main graph that the loss depends on as on parameters, in file order */
    bool *trained;
    tc_weight *data;
    tc_equal *equal;
    size_t n;
} weights;

typedef struct tied {
    tc_pass_env *env;
    tc_graph *graph;
    tc_arena *scratch;
    const tc_value *loss;
    weights w;
} tied;

/* --- the weights ------------------------------------------------------------------------------ */
static tc_status find_weights(tied *t) {
    weights *w = &t->w;
    tc_flow flow;
    TC_TRY(tc_trainable_preview(t->env, t->graph, t->loss, &flow));
    bool *trained = TC_NEW_ARRAY(t->scratch, bool, flow.n + 1);
    for (size_t i = 0; i < flow.n_trained; i++)
        trained[flow.trained[i]->id] = true;
    size_t most = t->graph->n_initializers + (size_t)1;
    *w = (weights){.values = TC_NEW_ARRAY(t->scratch, tc_value *, most),
                   .trained = TC_NEW_ARRAY(t->scratch, bool, most),
                   .data = TC_NEW_ARRAY(t->scratch, tc_weight, most),
                   .equal = TC_NEW_ARRAY(t->scratch, tc_equal, most)};
    for (uint32_t i = 0; i < t->graph->n_initializers; i++) {
        tc_value *value = t->graph->initializers[i];
        bool counts = trained[value->id] || tc_flow_has(&flow, value, TC_FLOW_DIRECT);
        if (!counts || value->init->count < 2 || !tc_dtype_is_float(value->init->dtype))
            continue;
        const void *data = tc_tensor_peek(t->graph->model, value->init);
        if (!data) /* absent or unfit files are reported by those who need them */
            continue;
        w->values[w->n] = value;
        w->trained[w->n] = trained[value->id];
        w->data[w->n++] = (tc_weight){value->init, data};
    }
    tc_find_equal(w->data, w->n, w->equal);
    return TC_OK;
}

static const tc_use *first_use(const tc_value *value) {
    const tc_use *first = value->uses;
    TC_FOR_USES(use, value)
        if (use->user->graph == value->graph &&
            (first->user->graph != value->graph || tc_node_before(use->user, first->user)))
            first = use;
    return first;
}

/* `MatMul "fc1"`, the node that a use belongs to. */
static const char *place(const tied *t, const tc_use *use) {
    return tc_arena_printf(t->env->ctx->arena, "%s \"%s\"", tc_quote(t->env->ctx, use->user->op_type),
                           tc_quote(t->env->ctx, tc_node_label(use->user)));
}

/* --- several parameters, stored once ---------------------------------------------------------- */
typedef struct merged {
    tc_value *value;
    tc_use_groups groups;
} merged;

static void record(const tied *t, const tc_value *value, const tc_tensor *tensor) {
    if (t->env->summary->initializers)
        tc_map_set(t->env->summary->initializers, value->name, (void *)(uintptr_t)tensor);
}

/* An initializer for one group's parameter. TorchScript's mark, a node, becomes it; other uses are moved to it. */
static const char *give_copy(tied *t, const merged *m, const tc_use_group *group) {
    tc_node *user = group->uses[0]->user;
    tc_tensor *copy = TC_NEW(t->graph->model->arena, tc_tensor);
    tc_value *value;
    *copy = *m->value->init;
    copy->origin = NULL;
    if (group->name && tc_node_is(user, "", "Identity") && strcmp(group->name, user->outputs[0]->name) == 0) {
        value = tc_node_take_output(user, 0);
        tc_node_erase(user);
        tc_graph_add_initializer(t->graph, value, copy);
    } else {
        value = tc_constant(t->graph, group->name ? group->name : m->value->name, copy);
        for (size_t i = 0; i < group->n; i++)
            tc_node_set_input(group->uses[i]->user, group->uses[i]->index, value);
    }
    copy->name = value->name;
    record(t, value, copy);
    return value->name;
}

static void split(tied *t, const merged *m) {
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, m->groups.n + 1);
    for (size_t g = 1; g < m->groups.n; g++)
        names[g - 1] = give_copy(t, m, &m->groups.groups[g]);
    tc_note(t->env->ctx, NULL, "--untie: copies of %s are trained for themselves: %s",
            tc_quote(t->env->ctx, m->value->name), tc_quote_list(t->env->ctx, names, m->groups.n - 1));
}

static void warn_merged(const tied *t, const merged *found, size_t n) {
    tc_ctx *ctx = t->env->ctx;
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, n + 1);
    size_t parameters = 0;
    for (size_t i = 0; i < n; i++) {
        const tc_use_groups *g = &found[i].groups;
        names[i] = found[i].value->name;
        parameters += g->n;
        if (n > FEW)
            continue;
        tc_warn(ctx, NULL,
                "%s %s %zu parameters that were equal when the model was exported, such as those of %s and %s: "
                "training would tie them",
                tc_quote(ctx, names[i]), g->told ? "stands for" : "seems to stand for", g->n,
                place(t, g->groups[0].uses[0]), place(t, g->groups[1].uses[0]));
        tc_hint(ctx, "--untie gives each a copy of its own");
    }
    if (n <= FEW)
        return;
    tc_warn(ctx, NULL,
            "%zu initializers stand for %zu parameters that were equal when the model was exported: "
            "training would tie them; %s",
            n, parameters, tc_quote_list(t->env->ctx, names, n));
    tc_hint(ctx, "--untie gives each parameter a copy of its own");
}

static void look_for_merged(tied *t) {
    merged *found = TC_NEW_ARRAY(t->scratch, merged, t->w.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < t->w.n; i++) {
        tc_value *value = t->w.values[i];
        if (!t->w.trained[i] || tc_value_use_count(value) < 2)
            continue;
        tc_use_groups groups = tc_group_uses(t->scratch, value, t->w.equal[i].uniform);
        if (groups.n > 1)
            found[n++] = (merged){value, groups};
    }
    if (!t->env->options->untie) {
        warn_merged(t, found, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        split(t, &found[i]);
    if (n == 0)
        tc_note(t->env->ctx, NULL, "--untie: no trained initializer stands for several parameters");
}

/* --- one parameter, stored several times ------------------------------------------------------ */
typedef struct copies {
    size_t *members; /* indices of weights; the first is the one to keep */
    size_t n;
    bool told; /* the file names their parameter */
} copies;

/* Of equal weights, those that the file calls by different names go apart; those it gives no name stay with the first.
 * parent[i] for each weight: tc_set_of. */
static size_t *part_by_names(const tied *t, bool *out_named) {
    size_t *parent = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1);
    size_t *known = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1); /* by first: the first named of the equal ones, + 1 */
    tc_map *seen = tc_map_create(t->scratch);
    for (size_t i = 0; i < t->w.n; i++) {
        size_t n, first = t->w.equal[i].first;
        const char **names = tc_parameter_names(t->scratch, t->w.values[i], &n);
        parent[i] = i;
        out_named[i] = n > 0;
        if (n && !known[first])
            known[first] = i + 1;
        for (size_t k = 0; k < n; k++) {
            const char *key = tc_arena_printf(t->scratch, "%zu %s", first, names[k]);
            size_t *with = tc_map_get(seen, key);
            if (with) {
                tc_set_join(parent, *with, i);
            } else {
                with = TC_NEW(t->scratch, size_t);
                *with = i;
                tc_map_set(seen, key, with);
            }
        }
    }
    for (size_t i = 0; i < t->w.n; i++)
        if (!out_named[i]) {
            size_t first = t->w.equal[i].first;
            tc_set_join(parent, known[first] ? known[first] - 1 : first, i);
        }
    return parent;
}

/* The one to keep comes first: trained, and called as a parameter is. */
static void put_keeper_first(const tied *t, copies *c) {
    size_t best = 0;
    int best_score = -1;
    for (size_t i = 0; i < c->n; i++) {
        size_t at = c->members[i];
        int score = (t->w.trained[at] ? 2 : 0) + (tc_name_is_generated(t->w.values[at]->name) ? 0 : 1);
        if (score > best_score)
            best = i, best_score = score;
    }
    size_t kept = c->members[best];
    memmove(c->members + 1, c->members, best * sizeof *c->members);
    c->members[0] = kept;
}

/* How member `at` comes from member `from`: the axes of the Transpose; false where it is a copy. */
static bool axes_between(const tied *t, size_t from, size_t at, int64_t *out_perm) {
    int rank = t->w.values[at]->init->rank;
    const tc_equal *a = &t->w.equal[from], *b = &t->w.equal[at];
    bool changed = false, a_permuted = a->first != from && a->permuted, b_permuted = b->first != at && b->permuted;
    int64_t back[TC_MAX_RANK];
    for (int i = 0; i < rank; i++)
        back[a_permuted ? a->perm[i] : i] = i;
    for (int i = 0; i < rank; i++) {
        out_perm[i] = back[b_permuted ? b->perm[i] : i];
        changed = changed || out_perm[i] != i;
    }
    return changed;
}

static bool can_go(const tc_value *value) { return !value->is_input && !value->n_graph_outputs; }

static void retie_one(tied *t, size_t kept, size_t at) {
    tc_value *from = t->w.values[kept], *gone = t->w.values[at], *now = from;
    int64_t perm[TC_MAX_RANK];
    if (axes_between(t, kept, at, perm)) {
        tc_node *node = tc_node_create(t->graph, "", "Transpose", 1, 1);
        tc_node_set_input(node, 0, from);
        tc_attr_set_ints(node, "perm", perm, (size_t)from->init->rank);
        now = tc_node_add_output(node, 0, tc_arena_printf(t->scratch, "%s_transposed", from->name), gone->type);
        node->name = now->name;
        tc_node_insert_before(node, t->graph->first);
    }
    record(t, gone, NULL);
    tc_value_replace(gone, now);
    tc_graph_remove_initializer(t->graph, gone);
}

static bool is_copy(const tied *t, size_t kept, size_t at) {
    int64_t perm[TC_MAX_RANK];
    return !axes_between(t, kept, at, perm);
}

static void warn_copies(const tied *t, const copies *found, size_t n) {
    tc_ctx *ctx = t->env->ctx;
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const copies *c = &found[i];
        const tc_value *kept = t->w.values[c->members[0]], *other = t->w.values[c->members[1]];
        names[i] = tc_arena_printf(t->scratch, "%s = %s", kept->name, other->name);
        if (n > FEW)
            continue;
        const char *more = c->n > 2 ? tc_arena_printf(t->scratch, " and %zu more", c->n - 2) : "";
        tc_warn(ctx, NULL, "%s (%s) and its %s %s (%s)%s hold the same numbers: %s", tc_quote(ctx, kept->name),
                place(t, first_use(kept)), is_copy(t, c->members[0], c->members[1]) ? "copy" : "transpose",
                tc_quote(ctx, other->name), place(t, first_use(other)), more,
                c->told ? "one parameter, stored several times; training would part them"
                        : "if they were one parameter, training would part them");
        tc_hint(ctx, "--retie trains them as one");
    }
    if (n <= FEW)
        return;
    tc_warn(ctx, NULL,
            "%zu weights are stored several times, as copies or transposes: if each was one parameter, "
            "training would part them; %s",
            n, tc_quote_list(t->env->ctx, names, n));
    tc_hint(ctx, "--retie trains each as one");
}

static void retie(tied *t, const copies *found, size_t n) {
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, t->w.n + 1);
    size_t joined = 0;
    for (size_t i = 0; i < n; i++) {
        size_t kept = found[i].members[0];
        for (size_t k = 1; k < found[i].n; k++) {
            size_t at = found[i].members[k];
            tc_value *gone = t->w.values[at];
            if (!can_go(gone)) {
                tc_warn(t->env->ctx, NULL, "--retie: %s equals %s but cannot become one with it, being %s of the graph",
                        tc_quote(t->env->ctx, gone->name), tc_quote(t->env->ctx, t->w.values[kept]->name),
                        gone->is_input ? "an input" : "an output");
                continue;
            }
            names[joined++] = tc_arena_printf(t->scratch, "%s is now %s%s", gone->name,
                                              is_copy(t, kept, at) ? "" : "the transpose of ", t->w.values[kept]->name);
            retie_one(t, kept, at);
        }
    }
    if (joined)
        tc_note(t->env->ctx, NULL, "--retie: %s", tc_quote_list(t->env->ctx, names, joined));
    else
        tc_note(t->env->ctx, NULL, "--retie: no weight is stored several times");
}

static void look_for_copies(tied *t) {
    bool *named = TC_NEW_ARRAY(t->scratch, bool, t->w.n + 1);
    size_t *parent = part_by_names(t, named), n = 0, *place_of = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1);
    copies *found = TC_NEW_ARRAY(t->scratch, copies, t->w.n + 1);
    size_t *count = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1),
           *named_count = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1);
    bool *any_trained = TC_NEW_ARRAY(t->scratch, bool, t->w.n + 1);
    for (size_t i = 0; i < t->w.n; i++) {
        size_t set = tc_set_of(parent, i);
        count[set]++;
        named_count[set] += named[i];
        any_trained[set] = any_trained[set] || t->w.trained[i];
    }
    for (size_t i = 0; i < t->w.n; i++) {
        size_t set = tc_set_of(parent, i);
        if (count[set] < 2 || !any_trained[set])
            continue;
        if (set == i) {
            place_of[i] = n++;
            found[place_of[i]] =
                (copies){.members = TC_NEW_ARRAY(t->scratch, size_t, count[i]), .told = named_count[i] > 1};
        }
        copies *c = &found[place_of[set]];
        c->members[c->n++] = i;
    }
    for (size_t i = 0; i < n; i++)
        put_keeper_first(t, &found[i]);
    if (t->env->options->retie)
        retie(t, found, n);
    else
        warn_copies(t, found, n);
}

tc_status tc_pass_tied(tc_pass_env *env, tc_model *model) {
    tied t = {.env = env, .graph = model->graph, .loss = tc_unambiguous_loss(env->options, model->graph)};
    if (!t.loss)
        return TC_OK;
    t.scratch = tc_arena_create();
    tc_status status = find_weights(&t);
    if (status == TC_OK)
        look_for_merged(&t);
    if (status == TC_OK && env->options->untie)
        status = find_weights(&t); /* there are more now */
    if (status == TC_OK)
        look_for_copies(&t);
    tc_arena_destroy(t.scratch);
    return status;
}
