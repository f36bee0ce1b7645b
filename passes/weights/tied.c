/* tied.c: weights whose ties the exporter changed. Exporters store one parameter several times (a tied decoder beside
 * its transpose), so that training would part what is one, and store equal tensors once (the zero biases of all layers,
 * a buffer of zeros among them), so that training would tie what is several, and train or freeze it all. Neither
 * changes the loss, so nobody sees it before the model has been trained.
 *
 * What the file tells of the parameters (parameter_uses.h) is done, and noted. Equal numbers alone say little: layers
 * may start as copies of each other. So what they suggest is warned of, and done by --retie and --untie alone; weights
 * that the file calls by different names are let be. Elements that are all equal are no sign of a tie either: every
 * fresh bias is zero. Without a single loss there is nothing to find, without the weights' data only what is told. */
#include "tied.h"
#include "choose_loss.h"
#include "trainable.h"

/* Which of the weights hold the same numbers. Absent or unfit files are reported by those who need them. */
static void find_equal(const tc_tied *t) {
    const tc_weights *w = &t->w;
    tc_weight *data = TC_NEW_ARRAY(t->scratch, tc_weight, w->n + 1);
    tc_equal *equal = TC_NEW_ARRAY(t->scratch, tc_equal, w->n + 1);
    size_t *place = TC_NEW_ARRAY(t->scratch, size_t, w->n + 1), n = 0;
    for (size_t i = 0; i < w->n; i++) {
        const tc_tensor *tensor = w->values[i]->init;
        w->equal[i] = (tc_equal){.first = i};
        const void *bytes = w->counts[i] && tensor->count > 0 ? tc_tensor_peek(t->graph->model, tensor) : NULL;
        w->has_data[i] = bytes != NULL;
        if (!bytes || tensor->count < 2)
            continue;
        place[n] = i;
        data[n++] = (tc_weight){tensor, bytes};
    }
    tc_find_equal(data, n, equal);
    for (size_t k = 0; k < n; k++) {
        w->equal[place[k]] = equal[k];
        w->equal[place[k]].first = place[equal[k].first];
    }
}

static tc_status find_weights(tc_tied *t) {
    tc_weights *w = &t->w;
    tc_flow flow;
    TC_TRY(tc_trainable_preview(t->env, t->graph, t->loss, &flow));
    bool *trained = TC_NEW_ARRAY(t->scratch, bool, flow.n + 1);
    for (size_t i = 0; i < flow.n_trained; i++)
        trained[flow.trained[i]->id] = true;
    size_t most = t->graph->n_initializers + (size_t)1;
    *w = (tc_weights){.values = TC_NEW_ARRAY(t->scratch, tc_value *, most),
                      .counts = TC_NEW_ARRAY(t->scratch, bool, most),
                      .trained = TC_NEW_ARRAY(t->scratch, bool, most),
                      .has_data = TC_NEW_ARRAY(t->scratch, bool, most),
                      .equal = TC_NEW_ARRAY(t->scratch, tc_equal, most)};
    for (uint32_t i = 0; i < t->graph->n_initializers; i++) {
        tc_value *value = t->graph->initializers[i];
        if (!tc_dtype_is_float(value->init->dtype) || !tc_flow_has(&flow, value, TC_FLOW_REACHES))
            continue;
        w->values[w->n] = value;
        w->trained[w->n] = trained[value->id];
        w->counts[w->n++] = trained[value->id] || tc_flow_has(&flow, value, TC_FLOW_DIRECT);
    }
    find_equal(t);
    return TC_OK;
}

const char *tc_tied_place(const tc_tied *t, const tc_use *use) {
    return tc_arena_printf(t->env->ctx->arena, "%s \"%s\"", tc_quote(t->env->ctx, use->user->op_type),
                           tc_quote(t->env->ctx, tc_node_label(use->user)));
}

static tc_status mend(tc_tied *t) {
    static bool (*const steps[])(tc_tied *) = {tc_part_merged, tc_guess_merged, tc_join_split};
    TC_TRY(find_weights(t));
    for (size_t i = 0; i < TC_COUNT(steps); i++)
        if (steps[i](t))
            TC_TRY(find_weights(t));
    tc_guess_split(t);
    return TC_OK;
}

tc_status tc_pass_tied(tc_pass_env *env, tc_model *model) {
    tc_tied t = {.env = env, .graph = model->graph, .loss = tc_unambiguous_loss(env->options, model->graph)};
    if (!t.loss)
        return TC_OK;
    t.scratch = tc_arena_create();
    t.program = tc_torch_program_read(t.scratch, model->graph);
    tc_status status = mend(&t);
    tc_arena_destroy(t.scratch);
    return status;
}
