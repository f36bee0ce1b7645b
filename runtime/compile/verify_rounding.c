/* verify_rounding.c: whether two results differ by rounding alone, for `tempoc --verify`. Where terms cancel out, as in
 * the gradient of a mean of probabilities, the result is their rounding, and no element shows how large that may be. So
 * recipe none runs in double, once as it is and once with every value off by a few roundings. An output may differ from
 * the double result by as much as that moves it. A wrong formula or kernel moves it further. */
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "runtime/session/session.h"
#include "verify_compiled.h"
#include <math.h>

#define ROOM 8.0 /* for the luck of the draw */

struct tc_rounding {
    tc_ctx *ctx;
    const tc_compile_request *like;
    const tc_options *options;
    const tc_draw *draw;
    uint64_t seed;
    double size; /* the relative error of the values */
    bool is_tried;
    tempo_session *exact, *moved; /* NULL: does not run in double */
};

/* Four times half a unit of the last digit. */
static double size_of(tempo_dtype dtype) {
    switch (dtype) {
    case TEMPO_DOUBLE: return 0x1p-51;
    case TEMPO_FLOAT16: return 0x1p-9;
    case TEMPO_BFLOAT16: return 0x1p-6;
    default: return 0x1p-22;
    }
}

/* Numbers about 1 for the last dims, as many as are known: one for all hides what cancels along a row. */
static tc_value *factors(const tc_rounding *r, tc_graph *graph, const tc_value *value) {
    int64_t dims[TC_MAX_RANK];
    int rank = value->type->rank < 0 ? 0 : value->type->rank, first = rank;
    while (first > 0 && tc_dim_is_const(value->type->dims[first - 1]))
        first--;
    for (int i = first; i < rank; i++)
        dims[i - first] = value->type->dims[i].value;
    tc_tensor *tensor = tc_tensor_create(graph->model, TC_DOUBLE, rank - first, dims, NULL);
    const tk_draw draw = {r->seed, value->id, UINT32_MAX};
    for (uint64_t i = 0; i < tensor->count; i++)
        tc_element_set(TC_DOUBLE, (void *)(uintptr_t)tensor->data, i, 1 + r->size * tc_draw_normal(&draw, i));
    return tc_constant(graph, "factor", tensor);
}

static void move_values(const tc_rounding *r, tc_graph *graph) {
    TC_FOR_NODES_SAFE(node, graph) {
        tc_value *value = tc_output(node, 0);
        if (!value || tc_value_dtype(value) != TC_DOUBLE || value->n_graph_outputs > 0 || tc_value_constant(value))
            continue;
        tc_node *mul = tc_node_create(graph, "", "Mul", 2, 1);
        tc_node_insert_after(mul, node);
        tc_value_replace(value, tc_node_add_output(mul, 0, NULL, value->type));
        tc_node_set_input(mul, 0, value);
        tc_node_set_input(mul, 1, factors(r, graph, value));
    }
}

static tempo_session *run_in_double(const tc_rounding *r, bool moves) {
    static const rt_hooks hooks = {tc_upgrade_model, tc_body_for};
    tempo_session *session = NULL;
    tc_model *model;
    size_t n_diags = r->ctx->n_diags;
    tc_status status = tc_compile_again(r->ctx, r->like, r->options, true, &model, NULL);
    r->ctx->n_diags = n_diags;
    if (status != TC_OK)
        return NULL;
    if (moves)
        move_values(r, model->graph);
    if (rt_open_model(model, r->like->source->path, NULL, &hooks, &session) == TEMPO_OK &&
        tc_bind_draw(r->ctx, session, r->draw, TC_DOUBLE) == TEMPO_OK) {
        tempo_seed(session, r->seed, 0);
        if (tempo_run(session) == TEMPO_OK)
            return session;
    }
    tempo_close(session);
    return NULL;
}

tc_rounding *tc_rounding_create(tc_ctx *ctx, const tc_compile_request *like, const tc_options *options, uint64_t seed,
                                const tc_draw *draw, tempo_dtype dtype) {
    tc_rounding *r = TC_NEW(ctx->arena, tc_rounding);
    *r =
        (tc_rounding){.ctx = ctx, .like = like, .options = options, .draw = draw, .seed = seed, .size = size_of(dtype)};
    return r;
}

void tc_rounding_close(tc_rounding *r) {
    tempo_close(r->moved);
    tempo_close(r->exact);
}

/* The greatest difference of two elements; infinite where one alone is finite, or there are not equally many. */
static double max_difference(const tempo_tensor *a, const tempo_tensor *b) {
    const tc_tensor x = tc_view_tensor(a), y = tc_view_tensor(b);
    double most = x.count == y.count ? 0 : INFINITY;
    for (uint64_t i = 0; i < x.count && isfinite(most); i++) {
        double d = fabs(tc_tensor_get(&x, i) - tc_tensor_get(&y, i));
        most = isfinite(d) ? fmax(most, d) : INFINITY;
    }
    return most;
}

bool tc_is_rounding(tc_rounding *r, const char *name, const tempo_tensor *got, const tempo_tensor *want) {
    tempo_tensor exact, moved;
    if (!r->is_tried) {
        r->is_tried = true;
        r->exact = run_in_double(r, false);
        r->moved = r->exact ? run_in_double(r, true) : NULL;
    }
    if (!r->moved || tempo_output(r->exact, name, &exact) != TEMPO_OK ||
        tempo_output(r->moved, name, &moved) != TEMPO_OK)
        return false;
    const double room = ROOM * max_difference(&moved, &exact);
    return isfinite(room) && max_difference(got, &exact) <= room && max_difference(want, &exact) <= room;
}
