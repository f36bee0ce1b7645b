/* renew_states.c: tensors that live from run to run on the device: weights, moments, running statistics, accumulators.
 * An output is paired with the input whose place it takes in the next run. Where nothing reads the old elements once
 * the new ones are written, both lie in one place; else there are two, which change roles after each run. Only an
 * output that no kernel writes for itself, such as another input, is copied. */
#include "compiler/memory/memory.h"
#include "plan.h"
#include <string.h>

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
 * neither it nor a later launch reads these. */
static bool may_lie_over(const rt_plan *plan, const rt_storage *made, const rt_storage *old, uint32_t reader) {
    const rt_launch *writer = &plan->launches[made->launch];
    return reader <= made->launch ||
           (reader == made->launch + 1 && rt_only_marked_read(plan, writer, made->value->out_index, old));
}

static tc_status check_types(tc_ctx *ctx, const tc_value *output, const tc_value *input) {
    if (tc_type_equal(output->type, input->type))
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "output '%s' is %s, but input '%s', which it replaces, is %s",
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

tc_status rt_take_state(tc_ctx *ctx, rt_shared *shared, const rt_state *state, void **memory) {
    if (*memory)
        return TC_OK;
    *memory = shared->device->alloc(shared->queue, state->bytes + 1);
    return *memory ? TC_OK
                   : tc_error(ctx, TC_LIMIT, NULL, "not enough memory: a tensor that is kept takes %zu bytes",
                              state->bytes);
}

void rt_free_state(const rt_shared *shared, rt_state *state) {
    for (int i = 0; i < 2; i++) {
        shared->device->free(shared->queue, state->memory[i]);
        state->memory[i] = NULL;
    }
}

void rt_free_states(rt_shared *shared) {
    for (uint32_t i = 0; i < shared->n_states; i++)
        rt_free_state(shared, &shared->states[i]);
}

tc_status rt_ready_states(tc_ctx *ctx, rt_plan *plan) {
    for (uint32_t i = 0; i < plan->shared->n_states; i++) {
        rt_state *state = &plan->shared->states[i];
        if (plan->renewals[i].how == RT_STAYS)
            continue;
        TC_TRY(rt_take_state(ctx, plan->shared, state, &state->memory[1]));
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
