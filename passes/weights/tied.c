/* tied.c: weights whose ties the exporter changed. Exporters store one parameter several times (a tied decoder beside
 * its transpose), so that training would change the copies independently. They also store equal tensors once (the zero
 * biases of all layers, perhaps with a buffer of zeros), so that training would tie them, and train or freeze all of
 * them. Neither changes the loss, so it shows only after the model has been trained. If the file records the parameters
 * (parameter_uses.h), the pass restores them, with a note. Equal numbers alone prove little, because layers may start
 * as copies of each other. So these give a warning, and only --retie and --untie act on them; weights with different
 * names in the file stay separate. Elements that are all equal are no sign of a tie either: every fresh bias is zero.
 * Without a single loss there is nothing to find; without the weights' data only the records count. */
#include "tied.h"
#include "choose_loss.h"
#include "trainable.h"

/* The weights that hold the same numbers. Missing or invalid files are reported where they are read. */
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
    if (!t.loss || tc_freezes_file(env))
        return TC_OK;
    t.scratch = tc_arena_create();
    t.program = tc_torch_program_read(t.scratch, model->graph);
    tc_status status = mend(&t);
    tc_arena_destroy(t.scratch);
    return status;
}
