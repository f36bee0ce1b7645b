/* state.c: calls about states: which output becomes which input, first values, and values after a run.
 * runtime/plan/renew_states.c says where the elements lie. */
#include "compiler/memory/memory.h"
#include "compiler/text/marks.h"
#include "session.h"
#include <string.h>

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
            return tc_error(&s->ctx, TC_USAGE, NULL, "output '%s' or input '%s' is in another pair already",
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

tc_status rt_take_given(tempo_session *s) {
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

tempo_status rt_keep_as_given(tempo_session *s) { RT_CALL(s, rt_take_given(s)); }

static tc_status set_elements(tempo_session *s, rt_input *input, const tempo_tensor *tensor) {
    rt_state *state = find_state(s, (uint32_t)(input - s->inputs));
    if (state->memory[0] && state->bytes != tensor->bytes)
        rt_free_state(&s->shared, state);
    state->bytes = tensor->bytes;
    TC_TRY(rt_take_state(&s->ctx, &s->shared, state, &state->memory[0]));
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
    TC_TRY(rt_take_state(&s->ctx, &s->shared, state, &state->memory[0]));
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
