/* state.c: tensors that live from run to run on the device: weights, moments, running statistics, accumulators. An
 * output is paired with the input whose place it takes in the next run. Where nothing reads the old elements once the
 * new ones are written, both lie in one place; else there are two, which change roles behind each run. Only an output
 * that no kernel writes for itself, such as another input, is copied. */
#include "compiler/text/marks.h"
#include "compiler/memory/storage.h"
#include "session.h"
#include <string.h>

/* --- where the plan writes -------------------------------------------------------------------- */

bool rt_only_marked_read(const rt_plan *plan, const rt_launch *launch, uint32_t result, const rt_storage *root) {
    for (uint32_t j = 0; j < launch->n_in; j++)
        if (!rt_may_lie_over(launch, result, j) && rt_in(launch, j) &&
            rt_plan_root(plan, tc_input(launch->node, j)) == root)
            return false;
    return true;
}

/* By storage, of roots: 1 + the last launch that reads elements of it, 1 + n_launches for graph outputs; 0: none does.
 */
static uint32_t *find_readers(const rt_plan *plan) {
    uint32_t *readers = TC_NEW_ARRAY(plan->launcher.arena, uint32_t, (size_t)plan->n_storages + 1);
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const rt_launch *launch = &plan->launches[i];
        bool runs = launch->view_of < 0 && !launch->constant;
        for (uint32_t k = 0; runs && k < launch->n_in; k++)
            if (rt_in(launch, k) && tc_operand_read(launch->node, k) != TC_READ_SHAPE)
                readers[rt_plan_root(plan, tc_input(launch->node, k)) - plan->storages] = i + 1;
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        readers[rt_plan_root(plan, plan->graph->outputs[i]) - plan->storages] = plan->n_launches + 1;
    return readers;
}

/* Whether the launch that makes `made` may write it over the bytes of `old`, whose last reader is launch `reader` - 1:
 * nothing reads these behind it, nor it. */
static bool may_lie_over(const rt_plan *plan, const rt_storage *made, const rt_storage *old, uint32_t reader) {
    const rt_launch *writer = &plan->launches[made->launch];
    return reader <= made->launch ||
           (reader == made->launch + 1 && rt_only_marked_read(plan, writer, made->value->out_index, old));
}

static tc_status check_types(tc_ctx *ctx, const tc_value *output, const tc_value *input) {
    if (tc_type_equal(output->type, input->type))
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "output '%s' is %s, but input '%s', whose place it is to take, is %s",
             tc_quote(ctx, output->name), tc_type_text(ctx->arena, output->type), tc_quote(ctx, input->name),
             tc_type_text(ctx->arena, input->type));
    return TC_BAD_INPUT;
}

tc_status rt_place_states(tc_ctx *ctx, rt_plan *plan) {
    const uint32_t *readers = plan->shared->n_states > 0 ? find_readers(plan) : NULL;
    plan->renewals = TC_NEW_ARRAY(plan->launcher.arena, rt_renewal, (size_t)plan->shared->n_states + 1);
    for (uint32_t i = 0; i < plan->shared->n_states; i++) {
        const rt_state *state = &plan->shared->states[i];
        const tc_value *output = plan->graph->outputs[state->output], *input = plan->graph->inputs[state->input];
        rt_storage *old = rt_plan_storage(plan, input), *made = rt_plan_root(plan, output);
        TC_TRY(check_types(ctx, output, input));
        rt_renewal *renewal = &plan->renewals[i];
        bool whole = made->home == RT_ARENA && made->bytes == old->bytes && rt_plan_storage(plan, output)->at == 0;
        renewal->how = made == old ? RT_STAYS : !whole ? RT_COPIED : RT_EXCHANGED;
        renewal->made = made;
        if (renewal->how != RT_EXCHANGED)
            continue;
        made->home = RT_STATE;
        if (may_lie_over(plan, made, old, readers[old - plan->storages])) {
            renewal->how = RT_STAYS;
            made->root = old->root;
        }
    }
    for (uint32_t i = 0; readers && i < plan->n_storages; i++) /* what lies in a state is the state's */
        plan->storages[i].home = rt_storage_root(plan, &plan->storages[i])->home;
    return TC_OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

static tc_status take(tc_ctx *ctx, rt_shared *shared, const rt_state *state, void **memory) {
    if (*memory)
        return TC_OK;
    *memory = shared->device->alloc(shared->queue, state->bytes + 1);
    return *memory ? TC_OK
                   : tc_error(ctx, TC_LIMIT, NULL, "not enough memory: a tensor that is kept takes %zu bytes",
                              state->bytes);
}

static void free_state(const rt_shared *shared, rt_state *state) {
    for (int i = 0; i < 2; i++) {
        shared->device->free(shared->queue, state->memory[i]);
        state->memory[i] = NULL;
    }
}

void rt_free_states(rt_shared *shared) {
    for (uint32_t i = 0; i < shared->n_states; i++)
        free_state(shared, &shared->states[i]);
}

tc_status rt_ready_states(tc_ctx *ctx, rt_plan *plan) {
    for (uint32_t i = 0; i < plan->shared->n_states; i++) {
        rt_state *state = &plan->shared->states[i];
        if (plan->renewals[i].how == RT_STAYS)
            continue;
        TC_TRY(take(ctx, plan->shared, state, &state->memory[1]));
        if (plan->renewals[i].how == RT_EXCHANGED)
            plan->renewals[i].made->data = state->memory[1];
    }
    return TC_OK;
}

bool rt_renew_states(rt_plan *plan) {
    const rt_shared *shared = plan->shared;
    bool moved = false;
    for (uint32_t i = 0; i < shared->n_states; i++) {
        rt_state *state = &shared->states[i];
        if (plan->renewals[i].how == RT_COPIED)
            shared->device->kernels->copy(shared->queue, state->memory[1],
                                          rt_plan_address(plan, plan->graph->outputs[state->output]), state->bytes);
    }
    for (uint32_t i = 0; i < shared->n_states; i++) {
        rt_state *state = &shared->states[i];
        if (plan->renewals[i].how == RT_STAYS)
            continue;
        void *now = state->memory[1];
        state->memory[1] = state->memory[0];
        state->memory[0] = now;
        moved = true;
    }
    return moved;
}

/* --- calls ------------------------------------------------------------------------------------ */

static rt_state *find_state(const tempo_session *s, uint32_t input) {
    for (uint32_t i = 0; i < s->shared.n_states; i++)
        if (s->shared.states[i].input == input)
            return &s->shared.states[i];
    return NULL;
}

static tc_status no_such(tempo_session *s, const char *what, const char *name) {
    return tc_error(&s->ctx, TC_USAGE, NULL, "the model has no %s '%s'", what, tc_quote(&s->ctx, name));
}

static tc_status keep(tempo_session *s, const char *output, const char *input) {
    rt_input *to = rt_find_input(s, input);
    uint32_t from;
    if (!to)
        return no_such(s, "input", input);
    if (!rt_find_output(s, output, &from))
        return no_such(s, "output", output);
    uint32_t at = (uint32_t)(to - s->inputs);
    for (uint32_t i = 0; i < s->shared.n_states; i++)
        if (s->shared.states[i].input == at || s->shared.states[i].output == from)
            return tc_error(&s->ctx, TC_USAGE, NULL, "output '%s' or input '%s' is one of another pair already",
                            tc_quote(&s->ctx, output), tc_quote(&s->ctx, input));
    rt_drop_plans(s);
    s->shared.states = tc_arena_grow(s->arena, s->shared.states, sizeof *s->shared.states, &s->shared.cap_states,
                                     (size_t)s->shared.n_states + 1);
    s->shared.states[s->shared.n_states++] = (rt_state){.input = at, .output = from};
    to->kept = true;
    to->data = NULL;
    return TC_OK;
}

tempo_status tempo_keep(tempo_session *s, const char *output, const char *input) { RT_CALL(s, keep(s, output, input)); }

static bool is_taken(const tempo_session *s, uint32_t output) {
    for (uint32_t i = 0; i < s->shared.n_states; i++)
        if (s->shared.states[i].output == output)
            return true;
    return false;
}

tc_status rt_take_told(tempo_session *s) {
    for (size_t i = 0; s->inputs && i < s->model->info.n_metadata; i++) {
        const tc_pair *pair = &s->model->info.metadata[i];
        if (strncmp(pair->key, TC_KEEP_KEY, strlen(TC_KEEP_KEY)) != 0)
            continue;
        const char *output = pair->key + strlen(TC_KEEP_KEY);
        const rt_input *input = rt_find_input(s, pair->value);
        uint32_t from;
        if (input && !input->kept && rt_find_output(s, output, &from) && !is_taken(s, from))
            TC_TRY(keep(s, output, pair->value));
    }
    return TC_OK;
}

tempo_status rt_keep_as_told(tempo_session *s) { RT_CALL(s, rt_take_told(s)); }

static tc_status set_elements(tempo_session *s, rt_input *input, const tempo_tensor *tensor) {
    rt_state *state = find_state(s, (uint32_t)(input - s->inputs));
    if (state->memory[0] && state->bytes != tensor->bytes)
        free_state(&s->shared, state);
    state->bytes = tensor->bytes;
    TC_TRY(take(&s->ctx, &s->shared, state, &state->memory[0]));
    s->shared.device->upload(s->shared.queue, state->memory[0], tensor->data, tensor->bytes);
    rt_take_shape(s, input, tensor);
    input->data = state->memory[0];
    return TC_OK;
}

static tc_status set_state(tempo_session *s, const char *name, const tempo_tensor *tensor) {
    rt_input *input = rt_find_input(s, name);
    if (!input || !input->kept)
        return tc_error(&s->ctx, TC_USAGE, NULL, "no output is paired with an input '%s'", tc_quote(&s->ctx, name));
    TC_TRY(rt_check_tensor(s, input, tensor));
    return set_elements(s, input, tensor);
}

tempo_status tempo_set_state(tempo_session *s, const char *input, const tempo_tensor *tensor) {
    RT_CALL(s, set_state(s, input, tensor));
}

/* The file says that zeros are its first value: they are in no file. */
static bool begins_as_zeros(const tempo_session *s, const rt_input *input) {
    const char *key = tc_arena_printf(s->ctx.arena, TC_ZERO_KEY "%s", input->value->name);
    return tc_type_is_static(input->declared) && tc_model_metadata(s->model, key);
}

static tc_status begin_as_zeros(tempo_session *s, rt_input *input) {
    enum { PIECE = 1 << 20 };
    static const char zeros[PIECE];
    rt_state *state = find_state(s, (uint32_t)(input - s->inputs));
    const tc_type *type = input->declared;
    int64_t dims[TC_MAX_RANK] = {0};
    uint64_t count = 0;
    for (int axis = 0; axis < type->rank; axis++)
        dims[axis] = type->dims[axis].value;
    if (!tc_shape_count(type->rank, dims, &count))
        return tc_error(&s->ctx, TC_LIMIT, NULL, "input '%s' is too large", tc_quote(&s->ctx, input->value->name));
    state->bytes = tc_tensor_bytes(type->dtype, count);
    TC_TRY(take(&s->ctx, &s->shared, state, &state->memory[0]));
    for (size_t at = 0; at < state->bytes; at += PIECE)
        s->shared.device->upload(s->shared.queue, (char *)state->memory[0] + at, zeros,
                                 state->bytes - at < PIECE ? state->bytes - at : PIECE);
    rt_take_shape(s, input, &(tempo_tensor){(tempo_dtype)type->dtype, type->rank, dims, NULL, state->bytes});
    input->data = state->memory[0];
    return TC_OK;
}

/* Defaults serve where nothing was set; where the device is, they are copied to. */
tc_status rt_begin_states(tempo_session *s) {
    for (uint32_t i = 0; i < s->shared.n_states; i++) {
        rt_input *input = &s->inputs[s->shared.states[i].input];
        const tc_tensor *init = input->value->init;
        const void *data = NULL;
        if (input->data)
            continue;
        if (!init && begins_as_zeros(s, input)) {
            TC_TRY(begin_as_zeros(s, input));
            continue;
        }
        if (!init) {
            tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' is kept from run to run, but has no first value",
                     tc_quote(&s->ctx, input->value->name));
            tc_hint(&s->ctx, "give it one, as an array of its name among the inputs, or with tempo_set_state");
            return TC_BAD_INPUT;
        }
        if (!init->data && init->external)
            TC_TRY(tc_tensor_map(&s->ctx, s->model, init, &data));
        data = data ? data : init->data;
        union {
            const void *in;
            void *out;
        } first = {data};
        const tempo_tensor tensor = {(tempo_dtype)init->dtype, init->rank, init->dims, first.out, init->bytes};
        TC_TRY(set_elements(s, input, &tensor));
    }
    return TC_OK;
}

static tc_status get_state(tempo_session *s, const char *name, tempo_tensor *out_tensor) {
    rt_input *input = rt_find_input(s, name);
    if (!input || !input->kept)
        return tc_error(&s->ctx, TC_USAGE, NULL, "no output is paired with an input '%s'", tc_quote(&s->ctx, name));
    TC_TRY(rt_begin_states(s));
    const rt_state *state = find_state(s, (uint32_t)(input - s->inputs));
    void *elements = state->memory[0];
    if (!s->shared.device->host_memory) {
        elements = tc_arena_alloc(s->ctx.arena, state->bytes + 1, 1);
        s->shared.device->download(s->shared.queue, elements, state->memory[0], state->bytes);
    }
    *out_tensor = (tempo_tensor){input->dtype, input->rank, input->dims, elements, state->bytes};
    return TC_OK;
}

tempo_status tempo_get_state(tempo_session *s, const char *input, tempo_tensor *out_tensor) {
    RT_CALL(s, get_state(s, input, out_tensor));
}
