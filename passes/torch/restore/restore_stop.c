/* restore_stop.c: finds the values that PyTorch detaches. Without the exporter's optimizer, a detach is an Identity
 * whose call is `aten.detach`. With it, the Identity is removed, and its readers read the value itself; their calls
 * still say %detach:
 *
 *   Mul(relu, val_0)      %mul = call_function[target=torch.ops.aten.mul.Tensor](args = (%detach, 0.5))
 * A call becomes one node or several. The values that these read from outside are matched with the names in the
 * call; values that match no other name are the detached ones. If this cannot be decided, the export is refused,
 * because the gradient would be silently wrong. A detach whose readers were removed, too, leaves no trace
 * (--stop=VALUE). */
#include "restore_stop.h"
#include "compiler/ir/ops.h"
#include "passes/autodiff/autodiff.h"
#include <string.h>

/* All words of a call that are one name, or that mean one parameter. */
typedef struct places {
    size_t *at, n, cap;
    bool matched; /* all of them are */
} places;

typedef struct reader {
    const tc_stops *s;
    const tc_restore_call *call;
    const tc_words *words;
    bool *matched;               /* by word: a value from outside has this name */
    tc_map *by_word, *by_target; /* -> places */
    tc_use **unnamed; /* uses of values from outside that may carry a gradient and whose name the call lacks */
    size_t n_unnamed, cap_unnamed;
    tc_node
        *reading; /* the only node that reads values from outside that may carry a gradient; NULL: there are several */
    size_t n_readers; /* such uses */
} reader;

/* --- names in calls --------------------------------------------------------------------------- */
const tc_words *tc_words_of(const tc_stops *s, const tc_restore_call *call) { return &s->words[call - s->r->calls]; }

const tc_restore_call *tc_call_of(const tc_stops *s, const tc_node *node) {
    return node ? tc_map_get_ptr(s->call_of, node) : NULL;
}

bool tc_is_detach(const char *name) {
    return tc_torch_same_stem(name, "detach") || tc_torch_same_stem(name, "detach_");
}

static const tc_torch_input *input_named(const tc_stops *s, const char *name) {
    return s->r->signature ? tc_map_get(s->r->signature->by_token, name) : NULL;
}

bool tc_is_present(const tc_stops *s, const char *name) {
    return tc_map_get(s->r->by_result, name) || tc_map_get(s->r->graph->names, name) || input_named(s, name);
}

/* How often each name is read; two reads by one call count once. */
static void count_mentions(tc_stops *s) {
    const tc_torch_signature *signature = s->r->signature;
    tc_map *last = tc_map_create(s->r->arena); /* name -> the last call that reads it */
    s->mentions = tc_map_create(s->r->arena);
    for (size_t c = 0; c < s->r->n; c++)
        for (size_t i = 0; i < s->words[c].n; i++) {
            const char *name = s->words[c].names[i];
            if (tc_map_get(last, name) == &s->words[c])
                continue;
            tc_map_set(last, name, &s->words[c]);
            tc_map_set(s->mentions, name, (void *)((uintptr_t)tc_map_get(s->mentions, name) + 1));
        }
    for (size_t i = 0; signature && i < signature->n_outputs + signature->n_changes; i++) {
        const char *name =
            i < signature->n_outputs ? signature->outputs[i] : signature->changes[i - signature->n_outputs];
        tc_map_set(s->mentions, name, (void *)((uintptr_t)tc_map_get(s->mentions, name) + 1));
    }
}

static tc_stops read_names(tc_restore *r) {
    tc_stops s = {.r = r, .words = TC_NEW_ARRAY(r->arena, tc_words, r->n + 1), .call_of = tc_map_create(r->arena)};
    for (size_t c = 0; c < r->n; c++) {
        s.words[c].names = tc_torch_call_names(r->arena, &r->calls[c].call, &s.words[c].n);
        for (size_t i = 0; i < r->calls[c].n; i++)
            tc_map_set_ptr(s.call_of, r->calls[c].nodes[i], &r->calls[c]);
    }
    count_mentions(&s);
    return s;
}

/* --- operands of a call's nodes --------------------------------------------------------------- */
bool tc_may_carry(const tc_value *value) {
    tc_dtype dtype = value->init ? value->init->dtype : tc_value_dtype(value);
    return (dtype == TC_UNDEFINED || tc_dtype_is_float(dtype)) &&
           (!value->init || value->learned == TC_LEARNED_YES || value->init->count > 1) &&
           !(value->producer && tc_node_is(value->producer, "", "Constant"));
}

bool tc_is_inside(const tc_stops *s, const tc_value *value) {
    const tc_restore_call *call = tc_call_of(s, value->producer);
    if (!call || strcmp(value->name, call->call.result) == 0)
        return false;
    TC_FOR_USES(use, value)
        if (tc_call_of(s, use->user) == call)
            return true;
    return false;
}

/* Inputs of the graph may have other names than the program's. */
static const char *input_word(const tc_restore *r, const tc_value *value) {
    uint32_t at = 0, k = 0;
    while (at < r->graph->n_inputs && r->graph->inputs[at] != value)
        at++;
    for (size_t i = 0; r->signature && i < r->signature->n; i++)
        if (r->signature->inputs[i].kind == TC_TORCH_INPUT && k++ == at)
            return r->signature->inputs[i].token;
    return "";
}

/* The initializer was folded from this parameter alone, perhaps transposed. */
static bool is_made_of(const tc_stops *s, const tc_value *value, const tc_torch_input *input) {
    size_t n = 0;
    const char **names = value->init ? tc_torch_folded_from(s->r->arena, value, &n) : NULL;
    return n == 1 && strcmp(names[0], input->target) == 0;
}

/* The value is the meaning of the name in calls. */
static bool stands_for(const tc_stops *s, const char *name, const tc_value *value) {
    const tc_torch_input *input = input_named(s, name);
    if (strcmp(value->name, name) == 0)
        return true;
    if (input && input->target && (strcmp(input->target, value->name) == 0 || is_made_of(s, value, input)))
        return true;
    if (value->is_input)
        return strcmp(input_word(s->r, value), name) == 0;
    const tc_restore_call *call = tc_call_of(s, value->producer);
    return call && value->producer->n_outputs == 1 && strcmp(call->call.result, name) == 0 && !tc_is_inside(s, value);
}

bool tc_is_named(const tc_stops *s, const tc_restore_call *call, const tc_value *value) {
    const tc_words *words = tc_words_of(s, call);
    for (size_t i = 0; i < words->n; i++)
        if (stands_for(s, words->names[i], value))
            return true;
    return false;
}

static void add_place(tc_arena *arena, tc_map *map, const char *key, size_t word) {
    places *p = tc_map_get(map, key);
    if (!p) {
        p = TC_NEW(arena, places);
        tc_map_set(map, key, p);
    }
    p->at = tc_arena_grow(arena, p->at, sizeof *p->at, &p->cap, p->n + 1);
    p->at[p->n++] = word;
}

static void list_places(reader *d) {
    tc_arena *arena = d->s->r->arena;
    d->by_word = tc_map_create(arena);
    d->by_target = tc_map_create(arena);
    for (size_t i = 0; i < d->words->n; i++) {
        const tc_torch_input *input = input_named(d->s, d->words->names[i]);
        add_place(arena, d->by_word, d->words->names[i], i);
        if (input && input->target)
            add_place(arena, d->by_target, input->target, i);
    }
}

static bool match_places(reader *d, const tc_map *map, const char *key) {
    places *p = tc_map_get(map, key);
    for (size_t i = 0; p && !p->matched && i < p->n; i++)
        d->matched[p->at[i]] = true;
    if (p)
        p->matched = true;
    return p != NULL;
}

/* Whether stands_for() is true for any word. */
static bool match(reader *d, const tc_value *value) {
    const tc_restore_call *call = value->is_input ? NULL : tc_call_of(d->s, value->producer);
    size_t n = 0;
    const char **from = value->init ? tc_torch_folded_from(d->s->r->arena, value, &n) : NULL;
    bool any = match_places(d, d->by_word, value->name);
    any = match_places(d, d->by_target, value->name) || any;
    if (n == 1)
        any = match_places(d, d->by_target, from[0]) || any;
    if (value->is_input)
        any = match_places(d, d->by_word, input_word(d->s->r, value)) || any;
    if (call && value->producer->n_outputs == 1 && !tc_is_inside(d->s, value))
        any = match_places(d, d->by_word, call->call.result) || any;
    return any;
}

/* Matches the values that the nodes read from outside; lists those that may carry a gradient and whose name the call
 * lacks. */
static void read_outside(reader *d) {
    for (size_t i = 0; i < d->call->n; i++) {
        tc_node *node = d->call->nodes[i];
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            const tc_value *value = tc_input(node, k);
            if (!value || tc_call_of(d->s, value->producer) == d->call)
                continue;
            bool named = match(d, value);
            if (!tc_may_carry(value))
                continue;
            d->reading = d->n_readers == 0 || d->reading == node ? node : NULL;
            d->n_readers++;
            if (named)
                continue;
            d->unnamed =
                tc_arena_grow(d->s->r->arena, d->unnamed, sizeof *d->unnamed, &d->cap_unnamed, d->n_unnamed + 1);
            d->unnamed[d->n_unnamed++] = &node->inputs[k];
        }
    }
}

/* --- stopping --------------------------------------------------------------------------------- */
static void stop_use(const reader *d, tc_use *use) {
    tc_node_set_input(use->user, use->index, tc_stopped(d->s->r->env, use->value));
}

/* If one node reads all values that the call names, in its order. */
static bool stop_by_place(const reader *d) {
    tc_node *node = d->reading;
    if (!node || node->n_inputs != d->words->n)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!tc_input(node, i) || (d->matched[i] && !stands_for(d->s, d->words->names[i], tc_input(node, i))))
            return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_is_detach(d->words->names[i]) && !d->matched[i])
            stop_use(d, &node->inputs[i]);
    return true;
}

static tc_status refuse(const reader *d, const char *word) {
    const tc_restore *r = d->s->r;
    const char *text = tc_arena_printf(r->arena,
                                       "PyTorch reads the detached value %%%s here, but after the exporter's "
                                       "optimizer the file does not show which operand that is",
                                       tc_quote(r->env->ctx, word));
    return tc_restore_refuse(r, d->call->nodes[0], text, "export with optimize=False");
}

/* The names in the call that match no value that is read. */
typedef struct missing {
    const char *detach;  /* one of them; NULL: none */
    size_t n_detached;   /* different ones */
    const char *present; /* a name that the file has: its reader was merged with another call's nodes */
    bool others;         /* one that it lacks: the operation was removed */
} missing;

static missing find_missing(const reader *d) {
    missing m = {0};
    for (size_t i = 0; i < d->words->n; i++) {
        const char *name = d->words->names[i];
        const places *all = tc_map_get(d->by_word, name);
        if (d->matched[i] || all->at[0] != i)
            continue;
        if (tc_map_get(d->s->r->by_result, name))
            m.present = name;
        else if (tc_is_detach(name))
            m.detach = name, m.n_detached++;
        else
            m.others = true;
    }
    return m;
}

/* Exactly the detached values have no name: their number matches, not counting constants. */
static bool is_all_detached(const reader *d, const missing *m) {
    size_t n = 0, constants = 0;
    for (size_t i = 0; i < d->n_unnamed; i++) {
        const tc_value *value = d->unnamed[i]->value;
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && d->unnamed[k]->value != value;
        n += first;
        constants += first && value->init && value->learned != TC_LEARNED_YES;
    }
    return !m->others && n >= m->n_detached && n - constants <= m->n_detached;
}

static tc_status restore_reader(const tc_stops *s, const tc_restore_call *call) {
    reader d = {.s = s, .call = call, .words = tc_words_of(s, call)};
    bool any = false;
    for (size_t i = 0; i < d.words->n; i++)
        any = any || tc_is_detach(d.words->names[i]);
    if (!any)
        return TC_OK;
    d.matched = TC_NEW_ARRAY(s->r->arena, bool, d.words->n + 1);
    list_places(&d);
    read_outside(&d);
    missing m = find_missing(&d);
    if (!m.detach)
        return TC_OK;
    if (m.present)
        return refuse(&d, m.detach);
    if (d.n_readers == 0)
        return TC_OK;
    bool all = is_all_detached(&d, &m);
    for (size_t i = 0; all && i < d.n_unnamed; i++)
        stop_use(&d, d.unnamed[i]);
    return all || stop_by_place(&d) ? TC_OK : refuse(&d, m.detach);
}

/* The Identity of a detach that is in the file. */
static void restore_detach(const tc_restore *r, const tc_restore_call *call) {
    tc_node *node = tc_restore_node(call, "Identity");
    if (!node)
        return;
    tc_value *stopped = tc_stopped(r->env, tc_input(node, 0));
    tc_node_set_input(node, 0, stopped);
}

/* `since`: the id of the first stop of this pass. */
static void report(const tc_restore *r, uint32_t since) {
    const char **names = TC_NEW_ARRAY(r->arena, const char *, r->env->summary->stops + (size_t)1);
    size_t n = 0;
    TC_FOR_NODES(node, r->graph)
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "StopGradient") && node->id >= since)
            names[n++] = tc_input(node, 0)->name;
    if (n)
        tc_note(r->env->ctx, NULL, "gradients stop at %s, which PyTorch detached",
                tc_quote_list(r->env->ctx, names, n));
}

/* Whether some call reads a detached value that is not in the file. */
static bool has_lost_detach(const tc_stops *s) {
    const void *name;
    void *count;
    size_t cursor = 0;
    while (tc_map_next(s->mentions, &cursor, &name, &count))
        if (tc_is_detach(name) && !tc_map_get(s->r->by_result, name))
            return true;
    return false;
}

tc_status tc_restore_stop(tc_restore *r) {
    uint32_t since = r->graph->model->next_id;
    tc_status status = TC_OK;
    if (!r->trains || r->n == 0)
        return TC_OK;
    tc_stops s = read_names(r);
    s.lost = has_lost_detach(&s);
    tc_part_calls(&s);
    TC_TRY(tc_restore_lost_stops(&s));
    for (size_t i = 0; i < r->n && status == TC_OK; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        if (tc_torch_call_is(call, "aten.detach") || tc_torch_call_is(call, "aten.detach_"))
            restore_detach(r, &r->calls[i]);
        else
            status = restore_reader(&s, &r->calls[i]);
    }
    report(r, since);
    if (status == TC_OK)
        tc_tell_no_grad(&s);
    return status;
}
