/* loss_scale.c: the first gradient of the backward pass, that of the loss for itself: one, or the graph input
 * tempo.loss_scale. With a scale, 16-bit gradients that would round to 0 stay numbers; the training program divides
 * them by it again (Micikevicius et al., Mixed Precision Training, 2018, section 3.2). */
#include "loss_scale.h"
#include "compiler/ir/ops.h"
#include "passes/precision/precision.h"

/* The graph input: a float of one element, 1 by default. */
static tc_status scale_input(tc_pass_env *env, tc_graph *graph, tc_value **out_scale) {
    tc_value *scale = *out_scale = tc_map_get(graph->names, TC_LOSS_SCALE_INPUT);
    if (!scale) {
        scale = *out_scale =
            tc_value_create_exact(graph, TC_LOSS_SCALE_INPUT, tc_type_tensor_static(graph->model, TC_FLOAT, 0, NULL));
        tc_graph_add_input(graph, scale);
        tc_graph_add_initializer(graph, scale, tc_tensor_scalar(graph->model, TC_FLOAT, 1));
        return TC_OK;
    }
    if (scale->is_input && tc_value_dtype(scale) == TC_FLOAT && tc_value_rank(scale) == 0)
        return TC_OK;
    tc_error(env->ctx, TC_BAD_INPUT, NULL,
             "%s is %s%s: --loss-scale takes the scale from a graph input of that name, float[]", TC_LOSS_SCALE_INPUT,
             tc_type_text(env->ctx->arena, scale->type), scale->is_input ? "" : " and no graph input");
    tc_hint(env->ctx, "rename it");
    return TC_BAD_INPUT;
}

static bool is_row(const tc_type *type) { return type->rank == 1 && tc_dim_equal(type->dims[0], tc_dim_const(1)); }

static tc_value *one(tc_build *g, const tc_value *loss) {
    int64_t one_dim = 1;
    tc_tensor *number = tc_tensor_scalar(g->model, loss->type->dtype, 1);
    if (is_row(loss->type))
        number = tc_tensor_create(g->model, loss->type->dtype, 1, &one_dim, number->data);
    return tc_constant(g->graph, tc_arena_printf(g->pool->arena, "%s_seed", loss->name), number);
}

static tc_status scale_of(tc_pass_env *env, tc_build *g, const tc_value *loss, tc_value **out_seed) {
    TC_TRY(scale_input(env, g->graph, out_seed));
    *out_seed = tc_build_cast(g, *out_seed, loss->type->dtype);
    if (is_row(loss->type))
        *out_seed = tc_build_reshape(g, *out_seed, tc_build_int(g, 1));
    return g->status;
}

tc_status tc_loss_seed(tc_pass_env *env, tc_build *g, tc_value *loss, tc_value **out_seed) {
    g->label = tc_arena_printf(g->pool->arena, "%s_grad", loss->name);
    if (tc_scales_loss(env->options))
        TC_TRY(scale_of(env, g, loss, out_seed));
    else
        *out_seed = one(g, loss);
    if (loss->type->rank != 0 && !is_row(loss->type))
        *out_seed = tc_build_expand_like(g, *out_seed, loss);
    return g->status;
}

tc_status tc_loss_scale_kept(tc_pass_env *env) {
    if (!env->options->loss_scale)
        return TC_OK;
    tc_error(env->ctx, TC_USAGE, NULL, "--loss-scale: the graph holds a backward pass already");
    tc_hint(env->ctx, "omit the option, or compile the model without its backward pass");
    return TC_USAGE;
}
