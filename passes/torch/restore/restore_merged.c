/* restore_merged.c: nodes that stand for several calls. The exporter's optimizer merges equal nodes after it removed
 * detach; a call of several nodes then begins with those of another one:
 *
 *   Sub(embedding, linear) -> sub_1   %sub_1 = aten.sub.Tensor(%embedding, %linear)
 *   Mul(sub_1, sub_1)                 %mse_loss_1 = aten.mse_loss.default(%embedding, %detach_1)
 * Each call gets nodes of its own, which compute the same. Those that differ by a stop stay separate; the others are
 * merged again later. */
#include "compiler/ir/clone.h"
#include "compiler/ir/ops.h"
#include "restore_stop.h"

static bool reads(const tc_restore_call *call, const tc_value *value) {
    for (size_t i = 0; i < call->n; i++)
        for (uint32_t k = 0; k < call->nodes[i]->n_inputs; k++)
            if (tc_input(call->nodes[i], k) == value)
                return true;
    return false;
}

/* The producer reads a value that the call names and reads nowhere itself. */
static bool reads_for(const tc_stops *s, const tc_node *producer, const tc_restore_call *call) {
    for (uint32_t k = 0; k < producer->n_inputs; k++) {
        const tc_value *operand = tc_input(producer, k);
        if (operand && !operand->init && tc_is_named(s, call, operand) && !reads(call, operand))
            return true;
    }
    return false;
}

static bool is_merged(const tc_stops *s, const tc_restore_call *call, const tc_value *value) {
    const tc_restore_call *other = value ? tc_call_of(s, value->producer) : NULL;
    if (!other || other == call || value->producer->n_outputs != 1 || !tc_may_carry(value) ||
        tc_is_named(s, call, value))
        return false;
    if (!value->producer->op || tc_node_has(value->producer, TC_RANDOM | TC_CONTROL | TC_SIDE_EFFECT))
        return false;
    return tc_is_inside(s, value) || reads_for(s, value->producer, call);
}

static void part(tc_stops *s, tc_restore_call *call, const tc_node *reader, tc_value *value) {
    tc_arena *arena = s->r->arena;
    const tc_cloner cloner = {.values = tc_map_create(arena)};
    tc_node *copy = tc_cloner_node(&cloner, s->r->graph, value->producer);
    copy->origin = reader->origin; /* its call */
    tc_node_insert_after(copy, value->producer);
    for (size_t i = 0; i < call->n; i++)
        for (uint32_t k = 0; k < call->nodes[i]->n_inputs; k++)
            if (tc_input(call->nodes[i], k) == value)
                tc_node_set_input(call->nodes[i], k, copy->outputs[0]);
    call->nodes = tc_arena_grow(arena, call->nodes, sizeof(tc_node *), &call->cap, call->n + 1);
    call->nodes[call->n++] = copy;
    tc_map_set_ptr(s->call_of, copy, call);
}

void tc_part_calls(tc_stops *s) {
    for (size_t c = 0; c < s->r->n; c++) {
        tc_restore_call *call = &s->r->calls[c];
        for (size_t i = 0; i < call->n; i++) /* copies go to the end of the list */
            for (uint32_t k = 0; k < call->nodes[i]->n_inputs; k++)
                if (is_merged(s, call, tc_input(call->nodes[i], k)))
                    part(s, call, call->nodes[i], tc_input(call->nodes[i], k));
    }
}
