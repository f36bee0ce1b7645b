/* prepare.c: from bound inputs to the plan that serves them. Plans are kept, those used last; inputs that fit none of
 * them get a new plan on a clone of the session's model. Shapes may depend on elements of inputs: leaving inputs out
 * shows which. A plan that can be made without the elements of an input holds for all its elements; a plan is kept with
 * the elements of those that it needs. */
#include "session.h"
#include "compiler/contents/contents.h"
#include "kernels/queue.h"
#include <string.h>

#define MAX_KEPT_BYTES ((size_t)256 << 20) /* of all plans that are kept, without their arena */

/* --- plans that are there --------------------------------------------------------------------- */

/* Element type, rank and dims of each input that is bound, 0 for the others. */
static const int64_t *list_shapes(const tempo_session *s, size_t *out_n) {
    size_t n = 0;
    for (uint32_t i = 0; i < s->model->graph->n_inputs; i++)
        n += 2 + (size_t)s->inputs[i].rank;
    int64_t *shapes = TC_NEW_ARRAY(s->ctx.arena, int64_t, n + 1);
    *out_n = 0;
    for (uint32_t i = 0; i < s->model->graph->n_inputs; i++) {
        const rt_input *input = &s->inputs[i];
        shapes[(*out_n)++] = input->data ? (int64_t)input->dtype : 0;
        if (!input->data)
            continue;
        shapes[(*out_n)++] = input->rank;
        for (int axis = 0; axis < input->rank; axis++)
            shapes[(*out_n)++] = input->dims[axis];
    }
    return shapes;
}

static bool same_elements(const tempo_session *s, const rt_kept *kept) {
    for (size_t i = 0; i < kept->n_decided; i++) {
        const rt_decided *d = &kept->decided[i];
        if (memcmp(d->data, s->inputs[d->input].data, d->bytes) != 0)
            return false;
    }
    return true;
}

static bool serves(const tempo_session *s, const rt_kept *kept, const int64_t *shapes, size_t n_shapes) {
    return kept->n_shapes == n_shapes && memcmp(kept->shapes, shapes, n_shapes * sizeof *shapes) == 0 &&
           same_elements(s, kept);
}

/* Moves plan `at` to the front; those before it move back. */
static void use(tempo_session *s, size_t at) {
    rt_kept used = s->kept[at];
    memmove(s->kept + 1, s->kept, at * sizeof used);
    s->kept[0] = used;
}

/* Plans of large graphs are large: those used last stay, up to so many bytes, and two in any case. */
static void drop_beyond(tempo_session *s, size_t limit) {
    size_t bytes = 0, n = 0;
    for (; n < s->n_kept; n++) {
        const rt_plan *plan = s->kept[n].plan;
        bytes += tc_arena_bytes(plan->launcher.arena) + tc_arena_bytes(plan->model->arena);
        if (n >= 2 && bytes > limit)
            break;
    }
    while (s->n_kept > n)
        rt_plan_destroy(s->kept[--s->n_kept].plan);
}

static void keep(tempo_session *s, rt_plan *plan, const bool *decides, const int64_t *shapes, size_t n_shapes) {
    tc_arena *arena = plan->launcher.arena;
    int64_t *copy = TC_NEW_ARRAY(arena, int64_t, n_shapes + 1);
    rt_decided *decided = TC_NEW_ARRAY(arena, rt_decided, (size_t)s->model->graph->n_inputs + 1);
    memcpy(copy, shapes, n_shapes * sizeof *copy);
    rt_kept kept = {.plan = plan, .shapes = copy, .n_shapes = n_shapes, .decided = decided};
    for (uint32_t i = 0; i < s->model->graph->n_inputs; i++) {
        rt_input *input = &s->inputs[i];
        input->decided = decides[i];
        if (!decides[i] || !input->data)
            continue;
        void *elements = tc_arena_alloc(arena, input->bytes + 1, 1);
        memcpy(elements, input->data, input->bytes);
        decided[kept.n_decided++] = (rt_decided){i, input->bytes, elements};
    }
    if (s->n_kept == RT_KEPT_PLANS)
        rt_plan_destroy(s->kept[--s->n_kept].plan);
    s->kept[s->n_kept++] = kept;
    use(s, s->n_kept - 1);
    drop_beyond(s, MAX_KEPT_BYTES);
}

void rt_drop_plans(tempo_session *s) {
    while (s->n_kept > 0)
        rt_plan_destroy(s->kept[--s->n_kept].plan);
    s->current = s->ran = false;
}

void rt_forget_all_recordings(tempo_session *s) {
    for (size_t i = 0; i < s->n_kept; i++)
        rt_forget_recordings(s->kept[i].plan);
}

/* --- a new plan ------------------------------------------------------------------------------- */

typedef struct search {
    tempo_session *s;
    uint32_t *candidates; /* [n] inputs whose elements might decide shapes: those that did last time first, then
                             integers, then floats */
    uint32_t n, n_before, n_integers; /* n_integers: with those before */
    bool *needed;                     /* [n_inputs] found to decide */
    bool *decides;                    /* [n_inputs] of the newest plan, or of the newest try */
    rt_plan *plan;                    /* the newest that could be made, or NULL */
} search;

static bool is_float(const rt_input *input) {
    return tc_dtype_is_float(input->data ? (tc_dtype)input->dtype : tc_value_dtype(input->value));
}

static bool is_small(const rt_input *input) {
    const tc_tensor *init = input->value->init;
    return input->data ? input->bytes <= TC_CONTENTS_LIMIT : init && init->bytes <= TC_CONTENTS_LIMIT;
}

static search begin_search(tempo_session *s) {
    uint32_t n_inputs = s->model->graph->n_inputs;
    search x = {.s = s,
                .candidates = TC_NEW_ARRAY(s->ctx.arena, uint32_t, (size_t)n_inputs + 1),
                .needed = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n_inputs + 1),
                .decides = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n_inputs + 1)};
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < n_inputs; i++) {
            const rt_input *input = &s->inputs[i];
            if (!input->kept && is_small(input) && turn == (input->decided ? 0 : is_float(input) ? 2 : 1))
                x.candidates[x.n++] = i;
        }
        *(turn == 0 ? &x.n_before : &x.n_integers) = turn < 2 ? x.n : x.n_integers;
    }
    return x;
}

/* A plan under the elements of the inputs needed and of the first `n` candidates. *out_found: there is one, and shapes
 * are known; x->plan is it. The status is that of resolving shapes: where that fails, more elements don't help. */
static tc_status try_with(search *x, uint32_t n, bool last, bool *out_found) {
    tempo_session *s = x->s;
    uint32_t n_inputs = s->model->graph->n_inputs;
    bool *decides = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n_inputs + 1);
    bool *bound = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n_inputs + 1);
    for (uint32_t i = 0; i < n_inputs; i++) {
        decides[i] = x->needed[i];
        bound[i] = s->inputs[i].data != NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        decides[x->candidates[i]] = true;
    *out_found = false;
    tc_model *model = tc_model_clone(s->model);
    bool is_static = false;
    tc_status status = rt_resolve_shapes(s, model, decides, &is_static);
    if (status != TC_OK || (!is_static && !last)) {
        tc_model_destroy(model);
        return status;
    }
    rt_plan *plan = NULL;
    status = rt_plan_create(&s->ctx, model, &s->random, bound, &s->shared, &plan);
    if (!plan)
        return last || status == TC_LIMIT ? status : TC_OK; /* no elements make it need less */
    s->ctx.n_diags = 0;
    rt_plan_destroy(x->plan);
    x->plan = plan;
    x->decides = decides;
    *out_found = true;
    return TC_OK;
}

/* Whether a plan can be made without the other candidates; errors of other tries don't count. */
static bool enough(search *x, uint32_t n) {
    bool found = false;
    (void)try_with(x, n, false, &found);
    x->s->ctx.n_diags = 0;
    return found;
}

/* There is a plan with the first `n` candidates, none without any. The last input of the shortest prefix that suffices
 * is needed; the search goes on with the next shorter one, until the needed inputs suffice alone. */
static void leave_out(search *x, uint32_t n) {
    for (uint32_t probe = x->n_before; n > 0; probe = 0) {
        uint32_t too_few = 0;
        while (n - too_few > 1) {
            uint32_t middle = probe > too_few && probe < n ? probe : too_few + (n - too_few) / 2;
            probe = 0;
            if (enough(x, middle))
                n = middle;
            else
                too_few = middle;
        }
        x->needed[x->candidates[--n]] = true;
        if (n == 0 || enough(x, 0))
            return;
    }
}

/* Without elements where that is enough: such a plan serves every batch. Floats are tried last. */
static tc_status find_plan(search *x) {
    const uint32_t stages[] = {0, x->n_integers, x->n};
    bool found = false;
    for (size_t i = 0; i < TC_COUNT(stages); i++) {
        bool last = i + 1 == TC_COUNT(stages);
        if (i > 0 && !last && stages[i] == stages[i - 1])
            continue;
        x->s->ctx.n_diags = 0;
        TC_TRY(try_with(x, stages[i], last, &found));
        if (found) {
            leave_out(x, stages[i]);
            return TC_OK;
        }
    }
    return TC_OK;
}

static tc_status make_plan(tempo_session *s, const int64_t *shapes, size_t n_shapes) {
    search x = begin_search(s);
    TC_TRY(find_plan(&x));
    s->plans_made++;
    keep(s, x.plan, x.decides, shapes, n_shapes);
    return TC_OK;
}

/* --- current inputs --------------------------------------------------------------------------- */

static tc_status tell_inputs(tempo_session *s) {
    uint32_t n = s->model->graph->n_inputs;
    const void **data = TC_NEW_ARRAY(s->ctx.arena, const void *, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        data[i] = s->inputs[i].data;
    s->current = false;
    if (!rt_plan_fits(s->kept[0].plan))
        rt_forget_all_recordings(s); /* the old arena: NCCL may have registered it with other GPUs */
    TC_TRY(rt_plan_ready(&s->ctx, s->kept[0].plan, data));
    s->current = true;
    s->moved = false;
    return TC_OK;
}

tc_status rt_prepare(tempo_session *s) {
    if (!s->inputs)
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model could not be opened");
    TC_TRY(rt_begin_states(s));
    if (s->current && same_elements(s, &s->kept[0]))
        return s->moved ? tell_inputs(s) : TC_OK;
    s->current = s->ran = false;
    size_t n_shapes, at = 0;
    const int64_t *shapes = list_shapes(s, &n_shapes);
    while (at < s->n_kept && !serves(s, &s->kept[at], shapes, n_shapes))
        at++;
    if (at < s->n_kept)
        use(s, at);
    else
        TC_TRY(make_plan(s, shapes, n_shapes));
    return tell_inputs(s);
}
