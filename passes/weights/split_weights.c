/* split_weights.c: one parameter, stored several times: as copies, or as transposes. One of them is kept, and the
 * others are computed from it. */
#include "trainable.h"
#include "tied.h"
#include "union_find.h"
#include <string.h>

typedef struct copies {
    size_t *members; /* indices of weights; the first is the one to keep */
    size_t n;
} copies;

/* The parameter of each weight, as far as known; arrays over weights. */
typedef struct records {
    const char ***names;
    size_t *n_names;
    tc_stored *stored;
} records;

static records read_names(const tc_tied *t) {
    records k = {.names = TC_NEW_ARRAY(t->scratch, const char **, t->w.n + 1),
                 .n_names = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1),
                 .stored = TC_NEW_ARRAY(t->scratch, tc_stored, t->w.n + 1)};
    for (size_t i = 0; i < t->w.n; i++)
        k.names[i] = tc_parameter_names(t->scratch, t->program, t->w.values[i], &k.n_names[i], &k.stored[i]);
    return k;
}

/* --- conversions between copies --------------------------------------------------------------- */
/* Weight b is weight a with these axes, by their numbers. */
static bool permuted_as_equal(const tc_tied *t, size_t a, size_t b, int64_t *out_perm) {
    const tc_equal *from = &t->w.equal[a], *to = &t->w.equal[b];
    bool a_permuted = from->first != a && from->permuted, b_permuted = to->first != b && to->permuted;
    int64_t back[TC_MAX_RANK];
    int rank = t->w.values[b]->init->rank;
    if (from->first != to->first)
        return false;
    for (int i = 0; i < rank; i++)
        back[a_permuted ? from->perm[i] : i] = i;
    for (int i = 0; i < rank; i++)
        out_perm[i] = back[b_permuted ? to->perm[i] : i];
    return true;
}

/* The same from their uses, for weights without data, and for those whose elements are all equal, which are their
 * own transposes. */
static bool permuted_as_recorded(const tc_tied *t, const records *k, size_t a, size_t b, int64_t *out_perm) {
    const tc_tensor *from = t->w.values[a]->init, *to = t->w.values[b]->init;
    if (k->stored[a] == TC_STORED_UNTOLD || k->stored[b] == TC_STORED_UNTOLD || from->rank != to->rank ||
        from->dtype != to->dtype)
        return false;
    bool both = t->w.has_data[a] && t->w.has_data[b], transposed = k->stored[a] != k->stored[b];
    if (both && !(t->w.equal[a].uniform && t->w.equal[b].uniform && from->count == to->count))
        return false;
    for (int i = 0; i < to->rank; i++) {
        out_perm[i] = transposed ? to->rank - 1 - i : i;
        if (to->dims[i] != from->dims[out_perm[i]])
            return false;
    }
    return !transposed || to->rank == 2;
}

static bool axes_between(const tc_tied *t, const records *k, size_t a, size_t b, int64_t *out_perm) {
    return permuted_as_equal(t, a, b, out_perm) || permuted_as_recorded(t, k, a, b, out_perm);
}

static bool is_copy(const tc_tied *t, const records *k, size_t a, size_t b) {
    int64_t perm[TC_MAX_RANK];
    bool same = axes_between(t, k, a, b, perm);
    for (int i = 0; same && i < t->w.values[b]->init->rank; i++)
        same = perm[i] == i;
    return same;
}

/* --- sets of copies --------------------------------------------------------------------------- */
/* Without their data the conversion between two weights is not known. */
static void warn_unknown(const tc_tied *t, size_t a, size_t b, const char *name) {
    tc_ctx *ctx = t->env->ctx;
    if (!t->w.trained[a] || !t->w.trained[b] || (t->w.has_data[a] && t->w.has_data[b]))
        return;
    tc_warn(ctx, NULL,
            "%s and %s both come from %s, but the file does not show how: they would be trained "
            "as two parameters",
            tc_quote(ctx, t->w.values[a]->name), tc_quote(ctx, t->w.values[b]->name), tc_quote(ctx, name));
    tc_hint(ctx, "tempoc compares their numbers if the file that holds them is present");
}

/* Weights with one name and a known conversion are one parameter. */
static size_t *join_by_names(const tc_tied *t, const records *k) {
    size_t *parent = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1);
    tc_map *seen = tc_map_create(t->scratch);
    int64_t perm[TC_MAX_RANK];
    for (size_t i = 0; i < t->w.n; i++) {
        parent[i] = i;
        for (size_t at = 0; at < k->n_names[i] && t->w.counts[i]; at++) {
            /* by shape: a call names a weight and a bias */
            const char *key = tc_arena_printf(t->scratch, "%d %llu %s", t->w.values[i]->init->rank,
                                              (unsigned long long)t->w.values[i]->init->count, k->names[i][at]);
            size_t *with = tc_map_get(seen, key);
            if (!with) {
                with = TC_NEW(t->scratch, size_t);
                *with = i;
                tc_map_set(seen, key, with);
            } else if (axes_between(t, k, *with, i, perm)) {
                tc_set_join(parent, *with, i);
            } else {
                warn_unknown(t, *with, i, k->names[i][at]);
            }
        }
    }
    return parent;
}

/* Equal weights without a name join the first of them that has one, else the first. */
static size_t *join_by_numbers(const tc_tied *t, const records *k) {
    size_t *parent = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1);
    size_t *known = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1); /* by first: the first named of the equal ones, + 1 */
    for (size_t i = 0; i < t->w.n; i++) {
        size_t first = t->w.equal[i].first;
        parent[i] = i;
        if (k->n_names[i] && !known[first])
            known[first] = i + 1;
    }
    for (size_t i = 0; i < t->w.n; i++) {
        size_t first = t->w.equal[i].first;
        if (!k->n_names[i])
            tc_set_join(parent, known[first] ? known[first] - 1 : first, i);
    }
    return parent;
}

/* The one to keep comes first: trained, and with a parameter's name. */
static void put_keeper_first(const tc_tied *t, copies *c) {
    size_t best = 0;
    int best_score = -1;
    for (size_t i = 0; i < c->n; i++) {
        const tc_value *value = t->w.values[c->members[i]];
        int score = (t->w.trained[c->members[i]] ? 4 : 0) + (tc_torch_input_of(t->program, value) ? 2 : 0) +
                    (tc_name_is_generated(value->name) ? 0 : 1);
        if (score > best_score)
            best = i, best_score = score;
    }
    size_t kept = c->members[best];
    memmove(c->members + 1, c->members, best * sizeof *c->members);
    c->members[0] = kept;
}

/* The sets of two or more that are trained; returns their number. */
static size_t list_copies(const tc_tied *t, size_t *parent, copies **out_found) {
    size_t n = 0, *place_of = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1),
           *count = TC_NEW_ARRAY(t->scratch, size_t, t->w.n + 1);
    bool *any_trained = TC_NEW_ARRAY(t->scratch, bool, t->w.n + 1);
    copies *found = TC_NEW_ARRAY(t->scratch, copies, t->w.n + 1);
    for (size_t i = 0; i < t->w.n; i++) {
        size_t set = tc_set_of(parent, i);
        count[set]++;
        any_trained[set] = any_trained[set] || t->w.trained[i];
    }
    for (size_t i = 0; i < t->w.n; i++) {
        size_t set = tc_set_of(parent, i);
        if (count[set] < 2 || !any_trained[set])
            continue;
        if (set == i) {
            place_of[i] = n++;
            found[place_of[i]] = (copies){.members = TC_NEW_ARRAY(t->scratch, size_t, count[i])};
        }
        copies *c = &found[place_of[set]];
        c->members[c->n++] = i;
    }
    for (size_t i = 0; i < n; i++)
        put_keeper_first(t, &found[i]);
    *out_found = found;
    return n;
}

/* --- joining ---------------------------------------------------------------------------------- */
static bool can_go(const tc_value *value) { return !value->is_input && !value->n_graph_outputs; }

static void join(tc_tied *t, const records *k, size_t kept, size_t at) {
    tc_value *from = t->w.values[kept], *gone = t->w.values[at], *now = from;
    int64_t perm[TC_MAX_RANK];
    if (!is_copy(t, k, kept, at) && axes_between(t, k, kept, at, perm)) {
        tc_node *node = tc_node_create(t->graph, "", "Transpose", 1, 1);
        tc_node_set_input(node, 0, from);
        tc_attr_set_ints(node, "perm", perm, (size_t)from->init->rank);
        now = tc_node_add_output(node, 0, tc_arena_printf(t->scratch, "%s_transposed", from->name), gone->type);
        node->name = now->name;
        tc_node_insert_before(node, t->graph->first);
    }
    tc_record_initializer(t->env, gone->name, NULL);
    tc_value_replace(gone, now);
    tc_graph_remove_initializer(t->graph, gone);
}

/* The joined weights, as text; returns their number. */
static const char **join_all(tc_tied *t, const records *k, const copies *found, size_t n, size_t *out_n) {
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, t->w.n + 1);
    tc_ctx *ctx = t->env->ctx;
    size_t joined = 0;
    for (size_t i = 0; i < n; i++) {
        size_t kept = found[i].members[0];
        const char *name = t->w.values[kept]->name;
        for (size_t m = 1; m < found[i].n; m++) {
            size_t at = found[i].members[m];
            tc_value *gone = t->w.values[at];
            if (!can_go(gone)) {
                tc_warn(ctx, NULL, "%s equals %s but cannot be merged with it, because it is %s of the graph",
                        tc_quote(ctx, gone->name), tc_quote(ctx, name), gone->is_input ? "an input" : "an output");
                continue;
            }
            names[joined++] = tc_arena_printf(t->scratch, "%s is now %s%s", gone->name,
                                              is_copy(t, k, kept, at) ? "" : "the transpose of ", name);
            join(t, k, kept, at);
        }
    }
    *out_n = joined;
    return names;
}

bool tc_join_split(tc_tied *t) {
    records k = read_names(t);
    copies *found;
    size_t n = list_copies(t, join_by_names(t, &k), &found), joined;
    const char **names = join_all(t, &k, found, n, &joined);
    if (joined)
        tc_note(t->env->ctx, NULL, "parameters that were stored several times are merged again: %s",
                tc_quote_list(t->env->ctx, names, joined));
    return joined > 0;
}

/* --- from equal numbers ----------------------------------------------------------------------- */
static const tc_use *first_use(const tc_value *value) {
    const tc_use *first = value->uses;
    TC_FOR_USES(use, value)
        if (use->user->graph == value->graph &&
            (first->user->graph != value->graph || tc_node_before(use->user, first->user)))
            first = use;
    return first;
}

static void warn_copies(const tc_tied *t, const records *k, const copies *found, size_t n) {
    tc_ctx *ctx = t->env->ctx;
    const char **names = TC_NEW_ARRAY(t->scratch, const char *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const copies *c = &found[i];
        const tc_value *kept = t->w.values[c->members[0]], *other = t->w.values[c->members[1]];
        names[i] = tc_arena_printf(t->scratch, "%s = %s", kept->name, other->name);
        if (n > TC_LIST_FEW)
            continue;
        const char *more = c->n > 2 ? tc_arena_printf(t->scratch, " and %zu more", c->n - 2) : "";
        tc_warn(ctx, NULL,
                "%s (%s) and its %s %s (%s)%s hold the same numbers: if they were one parameter, training "
                "would change them independently",
                tc_quote(ctx, kept->name), tc_tied_place(t, first_use(kept)),
                is_copy(t, k, c->members[0], c->members[1]) ? "copy" : "transpose", tc_quote(ctx, other->name),
                tc_tied_place(t, first_use(other)), more);
        tc_hint(ctx, "--retie trains them as one");
    }
    if (n <= TC_LIST_FEW)
        return;
    tc_warn(ctx, NULL,
            "%zu weights are stored several times, as copies or transposes: if each was one parameter, "
            "training would change the copies independently; %s",
            n, tc_quote_list(t->env->ctx, names, n));
    tc_hint(ctx, "--retie trains each as one");
}

void tc_guess_split(tc_tied *t) {
    records k = read_names(t);
    copies *found;
    size_t n = list_copies(t, join_by_numbers(t, &k), &found), joined;
    if (!t->env->options->retie) {
        warn_copies(t, &k, found, n);
        return;
    }
    const char **names = join_all(t, &k, found, n, &joined);
    if (joined)
        tc_note(t->env->ctx, NULL, "--retie: %s", tc_quote_list(t->env->ctx, names, joined));
    else
        tc_note(t->env->ctx, NULL, "--retie: nothing more is stored several times");
}
