/* footprint.c: from a session's model with unbound inputs to the bytes that a run would allocate, or to the nodes that
 * cannot run. The plan is made as for a run, and dropped. */
#include "session.h"
#include "compiler/contents/contents.h"

static const uint64_t nothing;

static tc_status take_shape(tempo_session *s, rt_input *input) {
    const tc_type *type = input->declared;
    if (!tc_type_is_static(type))
        return tc_error(&s->ctx, TC_UNSUPPORTED, NULL, "the shape of input '%s' (%s) is not known",
                        tc_quote(&s->ctx, input->value->name), input->type);
    input->dtype = (tempo_dtype)type->dtype;
    input->rank = type->rank;
    for (int axis = 0; axis < type->rank; axis++)
        input->dims[axis] = type->dims[axis].value;
    input->data = &nothing;
    return TC_OK;
}

static bool has_elements(const rt_input *input) {
    const tc_tensor *init = input->value->init;
    return input->data ? input->data != &nothing && input->bytes <= TC_CONTENTS_LIMIT : init && init->data;
}

static tc_status resolve(tempo_session *s, bool elements, bool *bound) {
    uint32_t n = s->model->graph->n_inputs;
    bool *decides = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n + 1), is_static;
    for (uint32_t i = 0; i < n; i++) {
        if ((s->inputs[i].kept && tc_type_is_static(s->inputs[i].declared)) ||
            (!s->inputs[i].value->init && !s->inputs[i].data))
            TC_TRY(take_shape(s, &s->inputs[i]));
        bound[i] = s->inputs[i].data != NULL;
        decides[i] = elements && has_elements(&s->inputs[i]);
    }
    return rt_resolve_shapes(s, s->model, decides, &is_static);
}

/* Without shapes: the nodes that have no kernel in any case, while branches and loops might be unrolled. `status` where
 * there are none. */
static tc_status find_without_kernel(tempo_session *s, tc_status status, rt_foreseen *out) {
    size_t n_diags = s->ctx.n_diags;
    TC_FOR_NODES(node, s->model->graph) {
        if (!rt_has_kernel(s->shared.device, node) && !tc_has_nested(node))
            (void)rt_tell_no_kernel(&s->ctx, s->shared.device, node);
    }
    out->missing = s->ctx.diags + n_diags;
    out->n_missing = s->ctx.n_diags - n_diags;
    return out->n_missing > 0 ? TC_OK : status;
}

/* --- memory of each node ---------------------------------------------------------------------- */

static const uint64_t *copy_parts(tc_arena *arena, const rt_launch *launch) {
    uint32_t n = launch->parts == RT_RESULTS ? launch->n_out : launch->n_in;
    uint64_t *at = TC_NEW_ARRAY(arena, uint64_t, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        at[i] = launch->part_at[i];
    return at;
}

static void note_launch(const tc_node_memories *nodes, const rt_launch *launch) {
    static const tc_parts parts[] = {
        [RT_NO_PARTS] = TC_NO_PARTS, [RT_RESULTS] = TC_PART_RESULTS, [RT_OPERANDS] = TC_PART_OPERANDS};
    const tc_node *node = launch->node;
    tc_node_memory *m = TC_NEW(nodes->arena, tc_node_memory);
    *m = (tc_node_memory){.domain = tc_arena_strdup(nodes->arena, node->domain),
                          .op_type = tc_arena_strdup(nodes->arena, node->op_type),
                          .workspace = launch->workspace_bytes,
                          .over = {launch->inplace[0], launch->inplace[1]},
                          .view_of = launch->constant ? -1 : launch->view_of,
                          .is_known = launch->constant != NULL,
                          .parts = parts[launch->parts]};
    if (launch->parts != RT_NO_PARTS)
        m->part_at = copy_parts(nodes->arena, launch);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            tc_map_set(nodes->by_result, tc_arena_strdup(nodes->arena, node->outputs[i]->name), m);
}

static void note_launches(const tc_node_memories *nodes, const rt_plan *plan) {
    _Static_assert(TC_NODE_OVERS == RT_INPLACE, "over = inplace");
    for (uint32_t i = 0; i < plan->n_launches; i++)
        note_launch(nodes, &plan->launches[i]);
}

/* --- the plan ----------------------------------------------------------------------------------- */

/* A run has the model twice: as opened, and the plan's clone. */
static uint64_t count_tables(const tempo_session *s, const rt_plan *plan) {
    return tc_arena_bytes(s->arena) + tc_arena_bytes(s->ctx.arena) + tc_arena_bytes(plan->launcher.arena) +
           2 * tc_arena_bytes(plan->model->arena);
}

/* The plan gets the session's own model: a clone would double the memory that tempoc takes for large graphs. */
static tc_status plan_dry(tempo_session *s, const bool *bound, const tc_node_memories *nodes, rt_foreseen *out) {
    rt_plan *plan;
    s->shared.dry = true;
    s->ctx.n_diags = 0;
    tc_status status = rt_plan_create(&s->ctx, s->model, &s->random, bound, &s->shared, &plan);
    s->inputs = NULL; /* the model is spent */
    if (status != TC_OK && status != TC_UNSUPPORTED)
        return status;
    out->missing = s->ctx.diags;
    out->n_missing = s->ctx.n_diags;
    if (plan && !s->shared.gaps) {
        out->planned = true;
        out->arena = plan->packing.bytes;
        out->bound = plan->packing.live.peak_bytes;
        out->tables = count_tables(s, plan);
        out->work = plan->packing.work;
        if (nodes)
            note_launches(nodes, plan);
    }
    rt_plan_destroy(plan);
    return TC_OK;
}

static tc_status foresee(tempo_session *s, bool elements, const tc_node_memories *nodes, rt_foreseen *out) {
    *out = (rt_foreseen){0};
    if (!s->inputs)
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model could not be opened");
    TC_TRY(rt_take_given(s)); /* as tempo-run does: the states' bytes are not the arena's */
    bool *bound = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)s->model->graph->n_inputs + 1);
    tc_status status = resolve(s, elements, bound);
    return status == TC_OK ? plan_dry(s, bound, nodes, out) : find_without_kernel(s, status, out);
}

tempo_status rt_foresee(tempo_session *s, bool elements, const tc_node_memories *nodes, rt_foreseen *out_foreseen) {
    RT_CALL(s, foresee(s, elements, nodes, out_foreseen));
}
