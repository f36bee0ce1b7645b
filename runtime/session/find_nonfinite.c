/* find_nonfinite.c: finds the node at which a run went wrong. All results are looked at while they are there: the way
 * back from a NaN loss to its origin then follows notes, not bytes. */
#include "session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a value that holds something that is not finite. */
typedef struct note {
    const tc_value *value;
    const rt_launch *launch;     /* that made it; NULL: none */
    int64_t nan_at, infinity_at; /* the first one, or -1 */
    double infinity;
    int rank;
    const int64_t *dims;
} note;

typedef struct finder {
    tempo_session *session;
    rt_plan *plan;
    tc_arena *arena;
    tc_map *notes;  /* tc_value -> note */
    tc_map *states; /* outputs that are the new value of a state -> not NULL */
    void *copy;     /* of a result on a device with memory of its own; malloc */
    size_t room;    /* of copy */
    const note *symptom;
    int urgency; /* of the symptom: a smaller number comes first */
} finder;
enum { OF_END, OF_LOSS, OF_OUTPUT, OF_ANY, OF_NOTHING };

/* --- elements --------------------------------------------------------------------------------- */

/* NaN and infinities have all bits of the exponent set; NaN has others besides. */
static void scan_words(const void *data, int64_t count, size_t size, uint64_t exponent, uint64_t fraction, note *out) {
    const unsigned char *at = data;
    for (int64_t i = 0; i < count && out->nan_at < 0; i++, at += size) {
        uint64_t bits = 0;
        memcpy(&bits, at, size);
        if ((bits & exponent) != exponent)
            continue;
        if (bits & fraction) {
            out->nan_at = i;
        } else if (out->infinity_at < 0) {
            out->infinity_at = i;
            out->infinity = bits >> (8 * size - 1) ? -INFINITY : INFINITY;
        }
    }
}

static void scan(tk_dtype dtype, const void *data, int64_t count, note *out) {
    out->nan_at = out->infinity_at = -1;
    switch (dtype) {
    case TK_F32: scan_words(data, count, 4, 0x7F800000, 0x7FFFFF, out); break;
    case TK_F64: scan_words(data, count, 8, UINT64_C(0x7FF) << 52, (UINT64_C(1) << 52) - 1, out); break;
    case TK_F16: scan_words(data, count, 2, 0x7C00, 0x3FF, out); break;
    case TK_BF16: scan_words(data, count, 2, 0x7F80, 0x7F, out); break;
    default: break;
    }
}

/* --- notes ------------------------------------------------------------------------------------ */

static note *note_of(const finder *f, const tc_value *value) { return value ? tc_map_get_ptr(f->notes, value) : NULL; }

static int urgency_of(const finder *f, const note *n) {
    bool output = n->value->n_graph_outputs > 0, nan = n->nan_at >= 0;
    int64_t count = 1;
    for (int i = 0; i < n->rank; i++)
        count *= n->dims[i];
    if (output && count == 1)
        return OF_LOSS;
    bool counts = nan || n->value->role == TC_ROLE_GRADIENT || tc_map_get_ptr(f->states, n->value);
    return output && counts ? OF_OUTPUT : nan ? OF_ANY : OF_NOTHING;
}

static void add_note(finder *f, const note *found) {
    note *n = TC_NEW(f->arena, note);
    *n = *found;
    tc_map_set_ptr(f->notes, n->value, n);
    int urgency = n->launch ? urgency_of(f, n) : OF_NOTHING;
    if (urgency < f->urgency) {
        f->urgency = urgency;
        f->symptom = n;
    }
}

static void release_copy(void *finding) { free(((finder *)finding)->copy); }

/* Where the host can read bytes of the device. */
static const void *on_host(finder *f, const void *data, size_t bytes) {
    const rt_device *device = f->plan->shared->device;
    if (device->host_memory)
        return data;
    if (bytes > f->room) {
        free(f->copy);
        f->room = 0;
        f->copy = malloc(bytes);
        if (!f->copy)
            tc_out_of_memory(bytes);
        f->room = bytes;
    }
    device->download(f->plan->shared->queue, f->copy, data, bytes);
    return f->copy;
}

static void look_at(finder *f, const tc_value *value, const rt_launch *launch, const rt_arg *arg, const void *data) {
    note n = {.value = value, .launch = launch, .rank = arg->rank, .dims = arg->dims};
    if (!value)
        return;
    scan(arg->dtype, data, arg->count, &n);
    if (n.nan_at >= 0 || n.infinity_at >= 0)
        add_note(f, &n);
}

/* Inputs, parameters and states, before the run writes over states. */
static void look_at_given(finder *f) {
    const rt_plan *plan = f->plan;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *s = &plan->storages[i];
        tc_dtype dtype = tc_value_dtype(s->value);
        if (s->home == RT_ARENA || s->root != i || !tc_dtype_is_float(dtype) || s->value->producer)
            continue;
        size_t size = tempo_dtype_size((tempo_dtype)dtype);
        rt_arg arg = {.dtype = (tk_dtype)dtype,
                      .rank = s->value->type->rank,
                      .dims = s->dims,
                      .count = (int64_t)(s->bytes / size)};
        const void *data = s->home == RT_STATE ? on_host(f, s->data, s->bytes) : s->host;
        look_at(f, s->value, NULL, &arg, data);
    }
}

/* A view holds what its operand holds. */
static void look_at_results(finder *f, const rt_launch *launch) {
    if (launch->constant || launch->view_of < 0) {
        for (uint32_t k = 0; k < launch->n_out; k++) {
            const rt_arg *arg = rt_out(launch, k);
            if (!arg || arg->count == 0)
                continue;
            bool known = launch->constant && k == 0;
            size_t bytes = (size_t)arg->count * tk_size(arg->dtype);
            look_at(f, launch->node->outputs[k], launch, arg, known ? launch->constant : on_host(f, arg->data, bytes));
        }
        return;
    }
    const note *viewed = note_of(f, tc_input(launch->node, (uint32_t)launch->view_of));
    if (!viewed || !rt_out(launch, 0))
        return;
    note n = *viewed;
    n.value = launch->node->outputs[0];
    n.launch = launch;
    n.rank = launch->out[0].rank;
    n.dims = launch->out[0].dims;
    add_note(f, &n);
}

/* --- the way back ----------------------------------------------------------------------------- */

/* The first operand with NaN, or, without that condition, with an infinity; NULL: none has. */
static const note *find_operand(const finder *f, const rt_launch *launch, bool nan) {
    for (uint32_t i = 0; launch && i < launch->n_in; i++) {
        const note *n = rt_in(launch, i) ? note_of(f, tc_input(launch->node, i)) : NULL;
        if (n && (nan ? n->nan_at : n->infinity_at) >= 0)
            return n;
    }
    return NULL;
}

static void tell(const finder *f, const note *n, bool nan, rt_nonfinite *out) {
    const note *infinite = nan ? find_operand(f, n->launch, false) : NULL;
    *out = (rt_nonfinite){.found = true,
                          .number = nan ? NAN : n->infinity,
                          .value = n->value->name,
                          .type = tc_type_text(f->session->ctx.arena, n->value->type),
                          .element = nan ? n->nan_at : n->infinity_at,
                          .rank = n->rank,
                          .dims = n->dims,
                          .infinite = infinite ? infinite->value->name : NULL};
    if (n->launch) {
        out->op = n->launch->node->op_type;
        out->node = tc_node_label(n->launch->node);
    }
}

static void trace(const finder *f, rt_nonfinite *out) {
    const note *n = f->symptom, *before;
    *out = (rt_nonfinite){0};
    if (!n)
        return;
    bool nan = n->nan_at >= 0;
    while ((before = find_operand(f, n->launch, nan)) != NULL)
        n = before;
    tell(f, n, nan, out);
}

/* --- the run ---------------------------------------------------------------------------------- */

static tc_status run_all(finder *f) {
    const rt_plan *plan = f->plan;
    const rt_device *device = plan->shared->device;
    tk_queue *q = plan->shared->queue;
    uint32_t at = 0;
    rt_upload_inputs(plan);
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const rt_launch *launch = &plan->launches[i];
        bool runs = launch->view_of < 0 && !launch->constant;
        if (runs) {
            tk_queue_begin(q, i);
            if (device->begin)
                device->begin(q, plan, i);
            launch->run(q, launch);
        }
        tk_status status = runs ? device->wait(q, &at) : TK_OK;
        if (status != TK_OK) {
            const note *nan = find_operand(f, launch, true), *infinite = find_operand(f, launch, false);
            f->symptom = nan ? nan : infinite;
            return f->symptom ? TC_OK : rt_explain(&f->session->ctx, plan, launch, status);
        }
        look_at_results(f, launch);
    }
    return TC_OK;
}

static void list_states(finder *f) {
    const rt_shared *shared = f->plan->shared;
    for (uint32_t i = 0; i < shared->n_states; i++)
        tc_map_set_ptr(f->states, f->plan->graph->outputs[shared->states[i].output], f);
}

static tc_status find(tempo_session *s, rt_nonfinite *out) {
    finder f = {.session = s, .urgency = OF_NOTHING};
    tc_held held;
    *out = (rt_nonfinite){0};
    s->ran = false;
    TC_TRY(rt_prepare(s));
    f.plan = s->kept[0].plan;
    f.arena = tc_arena_create();
    f.notes = tc_map_create(f.arena);
    f.states = tc_map_create(f.arena);
    tc_hold(&held, release_copy, &f);
    list_states(&f);
    look_at_given(&f);
    tc_status status = run_all(&f);
    if (status == TC_OK)
        trace(&f, out);
    tc_let_go(&held);
    release_copy(&f);
    tc_arena_destroy(f.arena);
    return status;
}

tempo_status rt_find_nonfinite(tempo_session *s, rt_nonfinite *out_found) { RT_CALL(s, find(s, out_found)); }

/* --- words ------------------------------------------------------------------------------------ */

static const char *place_text(tc_arena *arena, const rt_nonfinite *found) {
    const char *text = "";
    int64_t rest = found->element;
    for (int i = found->rank - 1; i >= 0; i--) {
        text = tc_arena_printf(arena, "%lld%s%s", (long long)(rest % found->dims[i]), *text ? "," : "", text);
        rest /= found->dims[i];
    }
    return text;
}

const char *rt_nonfinite_text(tc_ctx *ctx, const rt_nonfinite *found) {
    tc_arena *arena = ctx->arena;
    if (!found->found)
        return "all outputs are finite when it runs once more";
    const char *what = isnan(found->number) ? "NaN" : found->number > 0 ? "infinity" : "-infinity";
    const char *place = place_text(arena, found), *value = tc_quote(ctx, found->value);
    if (!found->node)
        return tc_arena_printf(arena, "'%s', %s, comes from no node and holds %s: element [%s]", value, found->type,
                               what, place);
    const char *text = tc_arena_printf(arena, "%s '%s' made %s: element [%s] of its result '%s', %s", found->op,
                                       tc_quote(ctx, found->node), what, place, value, found->type);
    if (!found->infinite)
        return text;
    return tc_arena_printf(arena, "%s, where its operand '%s' has infinities", text, tc_quote(ctx, found->infinite));
}
