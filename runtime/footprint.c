/* footprint.c: from a session's model, whose inputs nobody has bound, to the bytes that a run would allocate. The plan
 * is made as for a run, and dropped. */
#include "session.h"

static tc_status take_shape(tempo_session *s, rt_input *input) {
    static const uint64_t nothing;
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

/* Without the elements of inputs: a run that needs them for its shapes is not foreseen. The plan gets the session's own
 * model: a clone would double the memory that tempoc takes for large graphs. */
static tc_status plan_dry(tempo_session *s, rt_plan **out_plan) {
    uint32_t n = s->model->graph->n_inputs;
    bool *decides = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n + 1);
    bool *bound = TC_NEW_ARRAY(s->ctx.arena, bool, (size_t)n + 1), is_static;
    for (uint32_t i = 0; i < n; i++)
        bound[i] = s->inputs[i].data != NULL;
    TC_TRY(rt_resolve_shapes(s, s->model, decides, &is_static));
    return rt_plan_create(&s->ctx, s->model, &s->random, bound, &s->shared, out_plan);
}

static tc_status foresee(tempo_session *s, rt_footprint *out) {
    if (!s->inputs)
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model could not be opened");
    rt_plan *plan;
    for (uint32_t i = 0; i < s->model->graph->n_inputs; i++)
        if (!s->inputs[i].value->init)
            TC_TRY(take_shape(s, &s->inputs[i]));
    s->shared.dry = true;
    tc_status status = plan_dry(s, &plan);
    s->inputs = NULL; /* the model is spent */
    TC_TRY(status);
    *out = (rt_footprint){plan->packing.bytes, plan->packing.live.peak_bytes, s->shared.missing};
    rt_plan_destroy(plan);
    return TC_OK;
}

tempo_status rt_foresee(tempo_session *s, rt_footprint *out_footprint) { RT_CALL(s, foresee(s, out_footprint)); }
