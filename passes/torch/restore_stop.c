/* restore_stop.c: where PyTorch detaches a value. Without the exporter's optimizer that is an Identity whose call is
 * `aten.detach`. With it, the Identity is gone, and its readers read the value itself; their calls still say %detach:
 *
 *   Mul(relu, val_0)      %mul = call_function[target=torch.ops.aten.mul.Tensor](args = (%detach, 0.5))
 *
 * A call becomes one node or several. The values that these read from outside are matched with the names in the call;
 * what no other name stands for is what was detached. Where that cannot be told, the export is refused: the gradient
 * would be another one, in silence. A detach whose readers were removed, too, leaves no trace (--stop=VALUE). */
#include "../../compiler/ops.h"
#include "../stop_gradient.h"
#include "restore.h"
#include <string.h>

typedef struct words { /* names in a call, without "%", each as often as it stands there */
    const char **names;
    size_t n, cap;
} words;

typedef struct reader {
    tc_restore *r;
    const tc_restore_call *call;
    words words;
    bool *matched;    /* by word: a value from outside has this name */
    tc_use **unnamed; /* uses of values from outside that may carry a gradient and have no name in the call */
    size_t n_unnamed, cap_unnamed;
    tc_node *reading; /* the one node that reads what may carry a gradient from outside; NULL: several do */
    size_t n_readers; /* such uses */
} reader;

static void add_words(tc_arena *arena, words *to, const char *text) {
    for (const char *at = strchr(text, '%'); at; at = strchr(at, '%')) {
        size_t length = strspn(++at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
        to->names = tc_arena_grow(arena, to->names, sizeof *to->names, &to->cap, to->n + 1);
        to->names[to->n++] = tc_arena_strndup(arena, at, length);
    }
}

static words words_of(tc_arena *arena, const tc_torch_call *call) {
    words all = {0};
    for (size_t i = 0; i < call->n_args; i++)
        add_words(arena, &all, call->args[i]);
    for (size_t i = 0; i < call->n_keys; i++)
        add_words(arena, &all, call->values[i]);
    return all;
}

/* The length of "tanh" in "tanh_1": operations of one kind are numbered. */
static size_t stem(const char *name) {
    size_t n = strlen(name), digits = n;
    while (digits > 0 && strchr("0123456789", name[digits - 1]))
        digits--;
    return digits < n && digits > 1 && name[digits - 1] == '_' ? digits - 1 : n;
}

static bool is_kind(const char *name, const char *kind) {
    return stem(name) == strlen(kind) && strncmp(name, kind, strlen(kind)) == 0;
}

static bool is_detach(const char *name) { return is_kind(name, "detach") || is_kind(name, "detach_"); }

/* --- what a call's nodes read ----------------------------------------------------------------- */
static bool is_of_call(const tc_restore_call *call, const tc_node *node) {
    for (size_t i = 0; i < call->n; i++)
        if (call->nodes[i] == node)
            return true;
    return false;
}

/* No constant and no shape. */
static bool may_carry(const tc_value *value) {
    tc_dtype dtype = value->init ? value->init->dtype : tc_value_dtype(value);
    return (dtype == TC_UNDEFINED || tc_dtype_is_float(dtype)) &&
           (!value->init || value->learned == TC_LEARNED_YES || value->init->count > 1) &&
           !(value->producer && tc_node_is(value->producer, "", "Constant"));
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

static bool stands_for(const tc_restore *r, const char *word, const tc_value *value) {
    const tc_torch_input *input = r->signature ? tc_map_get(r->signature->by_token, word) : NULL;
    tc_torch_call call;
    if (strcmp(value->name, word) == 0 || (input && input->target && strcmp(input->target, value->name) == 0))
        return true;
    if (value->is_input)
        return strcmp(input_word(r, value), word) == 0;
    return value->producer && value->producer->n_outputs == 1 && tc_torch_call_read(r->arena, value->producer, &call) &&
           strcmp(call.result, word) == 0;
}

static bool match(reader *d, const tc_value *value) {
    bool any = false;
    for (size_t i = 0; i < d->words.n; i++)
        if (stands_for(d->r, d->words.names[i], value))
            any = d->matched[i] = true;
    return any;
}

/* Matches what the nodes read from outside; what has no name in the call and may carry a gradient is listed. */
static void read_outside(reader *d) {
    for (size_t i = 0; i < d->call->n; i++) {
        tc_node *node = d->call->nodes[i];
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            const tc_value *value = tc_input(node, k);
            if (!value || (value->producer && is_of_call(d->call, value->producer)))
                continue;
            bool named = match(d, value);
            if (!may_carry(value))
                continue;
            d->reading = d->n_readers == 0 || d->reading == node ? node : NULL;
            d->n_readers++;
            if (named)
                continue;
            d->unnamed = tc_arena_grow(d->r->arena, d->unnamed, sizeof *d->unnamed, &d->cap_unnamed, d->n_unnamed + 1);
            d->unnamed[d->n_unnamed++] = &node->inputs[k];
        }
    }
}

/* --- stopping --------------------------------------------------------------------------------- */
static void stop_use(const reader *d, tc_use *use) {
    tc_node_set_input(use->user, use->index, tc_stopped(d->r->env, use->value));
}

/* Where one node reads all that the call names, in its order. */
static bool stop_by_place(const reader *d) {
    tc_node *node = d->reading;
    if (!node || node->n_inputs != d->words.n)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!tc_input(node, i) || (d->matched[i] && !stands_for(d->r, d->words.names[i], tc_input(node, i))))
            return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (is_detach(d->words.names[i]) && !d->matched[i])
            stop_use(d, &node->inputs[i]);
    return true;
}

/* A node that stands for two calls, of which one read the detached value: its result went to readers of both. */
static bool has_twin(const reader *d) {
    const char *result = d->call->call.result;
    for (size_t i = 0; i < d->call->n; i++) {
        const tc_node *node = d->call->nodes[i];
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            if (!node->outputs[k])
                continue;
            TC_FOR_USES(use, node->outputs[k]) {
                tc_torch_call call;
                if (is_of_call(d->call, use->user) || !tc_torch_call_read(d->r->arena, use->user, &call))
                    continue;
                words read = words_of(d->r->arena, &call);
                for (size_t w = 0; w < read.n; w++)
                    if (strcmp(read.names[w], result) != 0 && stem(read.names[w]) == stem(result) &&
                        strncmp(read.names[w], result, stem(result)) == 0 &&
                        !tc_map_get(d->r->by_result, read.names[w]))
                        return true;
            }
        }
    }
    return false;
}

static tc_status refuse(const reader *d, const char *word) {
    const char *text = tc_arena_printf(d->r->arena,
                                       "PyTorch reads the detached value %%%s here, and the exporter's optimizer left "
                                       "no sign of which operand that is",
                                       tc_quote(d->r->env->ctx, word));
    return tc_restore_refuse(d->r, d->call->nodes[0], text, "export with optimize=False");
}

static tc_status restore_reader(tc_restore *r, const tc_restore_call *call) {
    reader d = {.r = r, .call = call, .words = words_of(r->arena, &call->call)};
    const char *lost = NULL;
    bool others = false; /* a name that is neither in the file nor a detach: an operation that was removed */
    for (size_t i = 0; i < d.words.n && !lost; i++)
        lost = is_detach(d.words.names[i]) ? d.words.names[i] : NULL;
    if (!lost)
        return TC_OK;
    d.matched = TC_NEW_ARRAY(r->arena, bool, d.words.n + 1);
    read_outside(&d);
    lost = NULL;
    for (size_t i = 0; i < d.words.n; i++) {
        bool detach = is_detach(d.words.names[i]);
        others = others || (!detach && !d.matched[i]);
        lost = detach && !d.matched[i] ? d.words.names[i] : lost;
    }
    if (!lost || d.n_readers == 0)
        return TC_OK;
    if (has_twin(&d))
        return refuse(&d, lost);
    for (size_t i = 0; !others && i < d.n_unnamed; i++)
        stop_use(&d, d.unnamed[i]);
    return (d.n_unnamed && !others) || stop_by_place(&d) ? TC_OK : refuse(&d, lost);
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
static void tell(const tc_restore *r, uint32_t since) {
    const char **names = TC_NEW_ARRAY(r->arena, const char *, r->env->summary->stops + (size_t)1);
    size_t n = 0;
    TC_FOR_NODES(node, r->graph)
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "StopGradient") && node->id >= since)
            names[n++] = tc_input(node, 0)->name;
    if (n)
        tc_note(r->env->ctx, NULL, "gradients stop at %s, which PyTorch detached",
                tc_quote_list(r->env->ctx, names, n));
}

tc_status tc_restore_stop(tc_restore *r) {
    uint32_t since = r->graph->model->next_id;
    tc_status status = TC_OK;
    if (!r->trains)
        return TC_OK;
    for (size_t i = 0; i < r->n && status == TC_OK; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        if (tc_torch_call_is(call, "aten.detach") || tc_torch_call_is(call, "aten.detach_"))
            restore_detach(r, &r->calls[i]);
        else
            status = restore_reader(r, &r->calls[i]);
    }
    tell(r, since);
    return status;
}
