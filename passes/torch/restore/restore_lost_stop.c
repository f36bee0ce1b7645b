/* restore_lost_stop.c: detached values that no operand stands for any more. A call that was merged as a whole with an
 * equal one is missing. Its readers read the other call's result, and only its name is left: Mul(tanh, tanh) of %mul =
 * aten.mul.Tensor(%tanh, %tanh_1). Both calls may have read the same value, or one of them a detached value. The
 * program's number of readers helps: if each reader of an operand is in the file, the lost call read another value,
 * which was merged, too. Detached values are numbered. A number below the highest that no call mentions was removed
 * together with its readers. */
#include "compiler/ir/ops.h"
#include "restore_stop.h"
#include <stdlib.h>
#include <string.h>

typedef struct merges {
    const tc_stops *s;
    bool *seen;                     /* by call: visited, or to be visited */
    const tc_restore_call **traced; /* each call once */
    size_t n_traced;
    const tc_restore_call *stopped; /* whose operand stands for a detached value, and for another one */
    const char **doubtful;          /* results of calls that may be such: an operand of theirs has a lost reader */
    size_t n_doubtful;
} merges;

/* --- trained values --------------------------------------------------------------------------- */
static bool is_trained(const merges *m, const tc_value *value) {
    size_t n = 0;
    const char **names = tc_torch_folded_from(m->s->r->arena, value, &n);
    const tc_torch_signature *signature = m->s->r->signature;
    for (size_t i = 0; signature && i < n; i++) {
        const tc_torch_input *input = tc_map_get(signature->by_target, names[i]);
        if (input && input->kind == TC_TORCH_PARAMETER)
            return true;
    }
    tc_torch_kind kind = tc_torch_kind_of(signature, value);
    return n == 0 && (kind == TC_TORCH_PARAMETER || (kind == TC_TORCH_UNKNOWN && tc_may_carry(value)));
}

static void find_carriers(const merges *m, tc_stops *s) {
    const tc_graph *graph = m->s->r->graph;
    tc_map *trained = tc_map_create(m->s->r->arena);
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        if (is_trained(m, graph->initializers[i]))
            tc_map_set_ptr(trained, graph->initializers[i], trained);
    s->carries = tc_map_create(m->s->r->arena);
    TC_FOR_NODES(node, graph) {
        bool any = false;
        for (uint32_t k = 0; k < node->n_inputs && !any; k++) {
            const tc_value *value = tc_input(node, k);
            any = value && tc_map_get_ptr(value->init ? trained : s->carries, value);
        }
        for (uint32_t k = 0; any && k < node->n_outputs && !tc_node_has(node, TC_NO_GRADIENT); k++)
            if (node->outputs[k] && tc_may_carry(node->outputs[k]))
                tc_map_set_ptr(m->s->carries, node->outputs[k], node);
    }
}

static bool call_carries(const merges *m, const tc_restore_call *call) {
    for (size_t i = 0; i < call->n; i++)
        for (uint32_t k = 0; k < call->nodes[i]->n_outputs; k++)
            if (call->nodes[i]->outputs[k] && tc_map_get_ptr(m->s->carries, call->nodes[i]->outputs[k]))
                return true;
    return false;
}

/* --- merged calls ----------------------------------------------------------------------------- */
static const tc_restore_call *call_named(const merges *m, const char *name) {
    uintptr_t at = (uintptr_t)tc_map_get(m->s->r->by_result, name);
    return at ? &m->s->r->calls[at - 1] : NULL;
}

/* The program has a reader of the result that the file lacks. */
static bool lost_reader(const merges *m, const tc_torch_call *call) {
    return call->users > (uintptr_t)tc_map_get(m->s->mentions, call->result);
}

static void add_traced(merges *m, const tc_restore_call *call) {
    bool *seen = &m->seen[call - m->s->r->calls];
    if (*seen || !call_carries(m, call))
        return;
    *seen = true;
    m->traced[m->n_traced++] = call;
}

/* A call stands for two. Were these alike? They were if the other one read each operand itself. */
static void trace_operands(merges *m, const tc_restore_call *call) {
    const tc_words *words = tc_words_of(m->s, call);
    bool doubtful = false;
    for (size_t i = 0; i < words->n; i++) {
        const tc_restore_call *operand = call_named(m, words->names[i]);
        if (!operand && tc_is_detach(words->names[i]) && !m->stopped)
            m->stopped = call;
        if (!operand || !call_carries(m, operand))
            continue;
        if (!lost_reader(m, &operand->call))
            add_traced(m, operand);
        else
            doubtful = true;
    }
    if (doubtful)
        m->doubtful[m->n_doubtful++] = call->call.result;
}

static void trace(merges *m, const tc_restore_call *call) {
    size_t at = m->n_traced;
    add_traced(m, call);
    for (; at < m->n_traced; at++)
        trace_operands(m, m->traced[at]);
}

/* Different names of one operation in a call for which the file has nothing. */
static size_t count_lost(const merges *m, const tc_words *words, const char *like) {
    size_t n = 0;
    for (size_t i = 0; i < words->n; i++) {
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && strcmp(words->names[k], words->names[i]) != 0;
        n += first && tc_torch_same_stem(words->names[i], like) && !tc_is_present(m->s, words->names[i]);
    }
    return n;
}

/* The other call whose result the operand is; NULL: none. */
static const tc_restore_call *source_of(const merges *m, const tc_restore_call *call, const tc_node *node, uint32_t k) {
    const tc_value *value = tc_input(node, k);
    const tc_restore_call *other = value ? tc_call_of(m->s, value->producer) : NULL;
    return other == call ? NULL : other;
}

/* Operands of the call that are such results and whose names it lacks. */
static size_t count_unnamed(const merges *m, const tc_restore_call *call, const char *like) {
    size_t n = 0;
    for (size_t i = 0; i < call->n; i++)
        for (uint32_t k = 0; k < call->nodes[i]->n_inputs; k++) {
            const tc_restore_call *other = source_of(m, call, call->nodes[i], k);
            n += other && tc_torch_same_stem(other->call.result, like) &&
                 !tc_is_named(m->s, call, tc_input(call->nodes[i], k));
        }
    return n;
}

/* A lost name stands for an operand of its kind: for one without a name if there are enough, else for any. */
static void find_merged_in(merges *m, const tc_restore_call *call) {
    const tc_words *words = tc_words_of(m->s, call);
    const char *kind = NULL; /* the last one counted: most calls read one kind, some very often */
    size_t lost = 0, unnamed = 0;
    for (size_t i = 0; i < call->n; i++)
        for (uint32_t k = 0; k < call->nodes[i]->n_inputs; k++) {
            const tc_restore_call *other = source_of(m, call, call->nodes[i], k);
            if (!other)
                continue;
            if (!kind || !tc_torch_same_stem(kind, other->call.result)) {
                kind = other->call.result;
                lost = count_lost(m, words, kind);
                unnamed = lost ? count_unnamed(m, call, kind) : 0;
            }
            if (lost && (unnamed < lost || !tc_is_named(m->s, call, tc_input(call->nodes[i], k))))
                trace(m, other);
        }
}

static void find_merged(merges *m) {
    for (size_t c = 0; c < m->s->r->n; c++)
        find_merged_in(m, &m->s->r->calls[c]);
}

/* --- numbers ---------------------------------------------------------------------------------- */
static const char *numbered(const merges *m, size_t number) {
    return number ? tc_arena_printf(m->s->r->arena, "detach_%zu", number) : "detach";
}

static size_t number_of(const char *name) { return name[strlen("detach")] ? strtoul(name + 7, NULL, 10) : 0; }

static void note_folded(const merges *m, tc_map *known) {
    const tc_graph *graph = m->s->r->graph;
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        size_t n = 0;
        const char **names = tc_torch_folded_from(m->s->r->arena, graph->initializers[i], &n);
        for (size_t k = 0; k < n; k++)
            tc_map_set(known, names[k], known);
    }
}

static size_t highest_of(const tc_map *names, tc_map *known) {
    size_t highest = 0, cursor = 0;
    const void *name;
    void *value;
    while (tc_map_next(names, &cursor, &name, &value))
        if (tc_torch_same_stem(name, "detach")) {
            highest = number_of(name) > highest ? number_of(name) : highest;
            tc_map_set(known, name, known);
        }
    return highest;
}

/* How many detached values no call mentions although there are later ones, and the first few of their names. A file
 * may have numbers of any size. */
static size_t unmentioned(const merges *m, const char *out_few[TC_LIST_FEW]) {
    tc_map *folded = tc_map_create(m->s->r->arena), *known = tc_map_create(m->s->r->arena);
    const tc_map *maps[] = {m->s->mentions, m->s->r->by_result, folded};
    size_t highest = 0, n = 0;
    note_folded(m, folded);
    for (size_t i = 0; i < TC_COUNT(maps); i++) {
        size_t here = highest_of(maps[i], known);
        highest = here > highest ? here : highest;
    }
    for (size_t i = 0; i < highest && n < TC_LIST_FEW; i++) {
        const char *name = numbered(m, i);
        if (!tc_map_get(known, name))
            out_few[n++] = name;
    }
    size_t count = tc_map_count(known);
    return n == TC_LIST_FEW && highest >= count ? highest - count + 1 : n;
}

/* --- messages --------------------------------------------------------------------------------- */
static tc_status refuse_stopped(const merges *m) {
    const char *text = tc_arena_printf(m->s->r->arena,
                                       "PyTorch computes %s from a detached value, and the same operation "
                                       "from another value; the exporter's optimizer merged the two",
                                       tc_quote(m->s->r->env->ctx, m->stopped->call.result));
    return tc_restore_refuse(m->s->r, m->stopped->nodes[0], text, "export with optimize=False");
}

/* Values are lost, and results that may have been theirs also belong to others. */
static tc_status refuse_doubtful(const merges *m, const char *lost) {
    tc_ctx *ctx = m->s->r->env->ctx;
    const char *text = tc_arena_printf(
        ctx->arena,
        "the file lacks PyTorch's detached value %%%s, and the exporter's optimizer merged results that may "
        "have been computed from it with others: %s",
        tc_quote(ctx, lost), tc_quote_list(ctx, m->doubtful, m->n_doubtful));
    return tc_restore_refuse(m->s->r, call_named(m, m->doubtful[0])->nodes[0], text, "export with optimize=False");
}

/* No call shows that one of these was computed from a detached value, but it is possible if others were. */
static void tell_doubtful(const merges *m) {
    tc_ctx *ctx = m->s->r->env->ctx;
    (m->s->lost ? tc_warn : tc_note)(ctx, NULL,
                                     "the exporter merged equal results: %s; gradients are right unless "
                                     "PyTorch detached a value that one of these was computed from",
                                     tc_quote_list(ctx, m->doubtful, m->n_doubtful));
    tc_hint(ctx, "export with optimize=False to be sure");
}

tc_status tc_restore_lost_stops(tc_stops *s) {
    merges m = {.s = s,
                .seen = TC_NEW_ARRAY(s->r->arena, bool, s->r->n + 1),
                .traced = TC_NEW_ARRAY(s->r->arena, const tc_restore_call *, s->r->n + 1),
                .doubtful = TC_NEW_ARRAY(s->r->arena, const char *, s->r->n + 1)};
    tc_ctx *ctx = s->r->env->ctx;
    find_carriers(&m, s);
    find_merged(&m);
    if (m.stopped)
        return refuse_stopped(&m);
    const char *lost[TC_LIST_FEW];
    size_t n = unmentioned(&m, lost);
    if (n && m.n_doubtful)
        return refuse_doubtful(&m, lost[0]);
    if (n) {
        tc_warn(ctx, NULL,
                "the exporter's optimizer removed values that PyTorch detached, and gradients may pass where "
                "they should stop: %s",
                tc_quote_list(ctx, lost, n));
        tc_hint(ctx, "export with optimize=False to be sure");
    }
    if (m.n_doubtful)
        tell_doubtful(&m);
    return TC_OK;
}
