/* tiled_attention.c: attention without a stored map P. The gradient op recomputes a block of its rows at a time, by
 * the kernels' same functions, so that gradients have the same bits; dropout is drawn again by its counter. The pass
 * compares the tensors that have to be kept instead, such as a bias or a mask that was not kept before. For 16-bit
 * types each row's maximum and sum are kept, for tensor cores. */
#include "compiler/memory/memory.h"
#include "passes/rules/rules.h"
#include "passes/lean/lean.h"
#include "variants.h"
#include <math.h>
#include <string.h>

enum { Q, KT, V, BIAS, MASK, RATIO, SEED, OPERANDS };                   /* of the attention */
enum { G_STATISTICS = OPERANDS + 1, G_Y };                              /* of the tiled gradient, after those */
enum { G_DY, G_Q, G_KT, G_V, G_P, G_DROPPED, G_KEEP, G_RATIO, G_MASK }; /* of its gradient */
enum { Y, P, DROPPED, KEEP, STATISTICS };

/* --- one attention ---------------------------------------------------------------------------- */

static bool read_by_alone(const tc_value *value, const tc_node *user) {
    if (!value)
        return true;
    TC_FOR_USES(use, value)
        if (use->user != user)
            return false;
    return value->n_graph_outputs == 0;
}

/* Of all dims but the last two. */
static bool same_leading(const tc_value *a, const tc_value *b) {
    int rank = tc_value_rank(a);
    bool same = rank >= 2 && rank == tc_value_rank(b);
    for (int i = 0; same && i < rank - 2; i++)
        same = tc_dim_equal(a->type->dims[i], b->type->dims[i]);
    return same;
}

static bool is_masked(const tc_node *forward) {
    return tc_input(forward, MASK) && isfinite(tc_attr_float(forward, "fill", -INFINITY));
}

/* The reason why the gradient is not that of this attention alone; NULL: it is. */
static const char *mismatch(const tc_node *grad, const tc_node *forward) {
    const uint32_t pairs[][2] = {{G_Q, Q}, {G_KT, KT}, {G_V, V}, {G_RATIO, RATIO}};
    const uint32_t maps[][2] = {{G_P, P}, {G_DROPPED, DROPPED}, {G_KEEP, KEEP}};
    for (size_t i = 0; i < TC_COUNT(pairs); i++)
        if (tc_input(grad, pairs[i][0]) != tc_input(forward, pairs[i][1]))
            return "its operands differ from those of the forward op";
    for (size_t i = 0; i < TC_COUNT(maps); i++) {
        const tc_value *map = tc_input(grad, maps[i][0]);
        if (map && map != tc_output(forward, maps[i][1]))
            return "its maps come from several forward ops";
        if (!read_by_alone(tc_output(forward, maps[i][1]), grad))
            return "the map has another reader, too";
    }
    if (tc_attr_float(grad, "scale", 1) != tc_attr_float(forward, "scale", 1))
        return "its scale differs from that of the forward op";
    if (tc_input(grad, G_MASK) != (is_masked(forward) ? tc_input(forward, MASK) : NULL) &&
        (tc_output(grad, 0) || tc_output(grad, 1)))
        return "its products differ from those of the scores";
    if (!same_leading(tc_input(grad, G_DY), tc_input(grad, G_P)))
        return "V has other leading dims than the scores, or they are not known";
    return NULL;
}

tc_node *tc_tileable_attention(const tc_node *grad, const char **out_why) {
    const tc_value *p = tc_input(grad, G_P);
    tc_node *forward = p ? p->producer : NULL;
    const char *why = "P does not come from an attention op";
    if (forward && forward->graph == grad->graph && p->out_index == P &&
        tc_node_is(forward, TC_TEMPO_DOMAIN, "DotProductAttention"))
        why = mismatch(grad, forward);
    if (out_why)
        *out_why = why;
    return why ? NULL : forward;
}

tc_node *tc_tiled_gradient(tc_node *grad, const tc_node *forward) {
    static const char *const attributes[] = {"bias_first", "fill", "guard", "node", "scale", "seed", "softcap"};
    tc_node *tiled = tc_node_create(grad->graph, TC_TEMPO_DOMAIN, "DotProductAttentionTiledGrad", 0, grad->n_outputs);
    tc_node_set_input(tiled, 0, tc_input(grad, G_DY));
    for (uint32_t i = 0; i < OPERANDS; i++)
        if (tc_input(forward, i))
            tc_node_set_input(tiled, i + 1, tc_input(forward, i));
    for (size_t i = 0; i < TC_COUNT(attributes); i++)
        if (tc_attr_find(forward, attributes[i]))
            tc_attr_copy(tiled, tc_attr_find(forward, attributes[i]));
    if (tc_output(forward, STATISTICS)) {
        tc_node_set_input(tiled, G_STATISTICS, tc_output(forward, STATISTICS));
        tc_node_set_input(tiled, G_Y, tc_output(forward, Y));
    }
    tiled->name = grad->name;
    tiled->ordinal = grad->ordinal;
    return tiled;
}

/* Tensor cores process 16-bit tiles, with statistics of rows and y instead of two products. This takes 8 bytes per
 * row, if y, or a tensor to recompute it from, is kept anyway. Other types recompute P as in the forward pass, where
 * the statistics cost little beside the product. */
static void keep_statistics(tc_node *forward, const tc_node *end) {
    tc_value *y = tc_output(forward, Y), *p = tc_output(forward, P);
    tc_dtype dtype = tc_value_dtype(y);
    if (!tc_dtype_is_half(dtype) || tc_output(forward, STATISTICS) || !tc_needed_late(y, end))
        return;
    tc_dim dims[TC_MAX_RANK];
    int rank = tc_value_rank(p);
    memcpy(dims, p->type->dims, (size_t)rank * sizeof *dims);
    dims[rank - 1] = tc_dim_const(2);
    tc_model *model = forward->graph->model;
    tc_node_resize_outputs(forward, STATISTICS + 1);
    tc_node_add_output(forward, STATISTICS, tc_arena_printf(model->arena, "%s_statistics", y->name),
                       tc_type_tensor(model, TC_FLOAT, rank, dims));
}

static bool is_used(const tc_node *node, uint32_t result) {
    return tc_output(node, result) && tc_value_is_used(tc_output(node, result));
}

void tc_forget_maps(tc_node *forward) {
    if (is_used(forward, P) || is_used(forward, DROPPED) || is_used(forward, KEEP))
        return;
    tc_value *statistics = is_used(forward, STATISTICS) ? tc_node_take_output(forward, STATISTICS) : NULL;
    tc_node_resize_outputs(forward, 1);
    if (statistics)
        tc_node_set_output(forward, STATISTICS, statistics);
    if (tc_attr_find(forward, "signed"))
        tc_attr_remove(forward, "signed");
}

/* --- the gradient of a bias ------------------------------------------------------------------- */

static tc_node *only_user(const tc_value *value) {
    return value && tc_value_use_count(value) == 1 && value->uses ? value->uses->user : NULL;
}

/* Axes of a ReduceSum that all come before an attention's rows, as the op requires. */
static bool leading_axes(const tc_node *sum, int rank, int64_t axes[TC_MAX_RANK], size_t *out_n) {
    const tc_tensor *given = tc_input(sum, 1) ? tc_value_constant(tc_input(sum, 1)) : NULL;
    *out_n = given && given->data ? (size_t)given->count : 0;
    if (*out_n == 0 || *out_n > TC_MAX_RANK || given->dtype != TC_INT64)
        return false;
    for (size_t i = 0; i < *out_n; i++) {
        axes[i] = tc_tensor_get_int(given, i);
        axes[i] += axes[i] < 0 ? rank : 0;
        if (axes[i] < 0 || axes[i] >= rank - 2)
            return false;
    }
    return true;
}

/* The ReduceSum becomes a Squeeze if it removes the axes; if it keeps them, it is removed. */
void tc_sum_in_tiles(tc_node *tiled) {
    tc_value *ds = tc_output(tiled, 3);
    tc_node *sum = only_user(ds);
    int64_t axes[TC_MAX_RANK];
    size_t n;
    if (!sum || !tc_node_is(sum, "", "ReduceSum") || !leading_axes(sum, tc_value_rank(ds), axes, &n))
        return;
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < tc_value_rank(ds); i++)
        dims[i] = ds->type->dims[i];
    for (size_t i = 0; i < n; i++)
        dims[axes[i]] = tc_dim_const(1);
    ds->type = tc_type_tensor(ds->graph->model, tc_value_dtype(ds), tc_value_rank(ds), dims);
    tc_attr_set_ints(tiled, "sum_axes", axes, n);
    if (tc_attr_int(sum, "keepdims", 1) == 0) {
        tc_attr_remove(sum, "keepdims");
        if (tc_attr_find(sum, "noop_with_empty_axes"))
            tc_attr_remove(sum, "noop_with_empty_axes");
        tc_node_set_op(sum, "", "Squeeze");
        return;
    }
    tc_value *result = tc_node_take_output(sum, 0);
    tc_node_erase(sum);
    tc_node_resize_outputs(tiled, 3);
    tc_node_set_output(tiled, 3, result);
}

/* --- a graph ---------------------------------------------------------------------------------- */

typedef struct tiling {
    tc_pass_env *env;
    tc_graph *graph;
    const tc_node *end; /* of the forward pass */
    tc_rule_stat *row;
} tiling;

static void explain(const tiling *t, const tc_node *grad, const char *why) {
    if (tc_is_explained(t->env->options, t->row->name))
        tc_note(t->env->ctx, NULL, "%s: %s \"%s\" keeps its map: %s", t->row->name, grad->op_type, tc_node_label(grad),
                why);
}

/* Whether an operand has fewer elements than the map for any dims, because it is broadcast along an axis. */
static bool is_repeated(const tc_value *operand, const tc_value *p) {
    int rank = tc_value_rank(operand), of_p = tc_value_rank(p);
    bool repeated = rank < of_p;
    for (int i = 1; i <= rank && i <= of_p; i++)
        repeated = repeated || (tc_dim_equal(operand->type->dims[rank - i], tc_dim_const(1)) &&
                                !tc_dim_equal(p->type->dims[of_p - i], tc_dim_const(1)));
    return repeated;
}

/* The number of tileable attentions that read a bias. */
static int attentions_with(const tc_value *bias) {
    int n = 0;
    TC_FOR_USES(use, bias)
        if (use->index == BIAS && tc_node_is(use->user, TC_TEMPO_DOMAIN, "DotProductAttention"))
            n++;
    return n;
}

/* Whether dropping the map would only make room for a bias of the same size, which nothing keeps so far and no other
 * attention shares. */
static bool is_in_vain(const tiling *t, const tc_node *forward) {
    const tc_value *bias = tc_input(forward, BIAS), *p = tc_output(forward, P);
    if (!bias || is_repeated(bias, p) || tc_value_is_given(tc_value_storage(bias)))
        return false;
    return attentions_with(bias) < 2 && !tc_read_late(tc_value_storage(bias), t->end, NULL, false) &&
           !tc_recomputable(bias, t->end);
}

static void tile(const tiling *t, tc_node *grad) {
    const char *why = NULL;
    tc_node *forward = tc_tileable_attention(grad, &why);
    t->row->tried++;
    if (forward && is_in_vain(t, forward))
        why = "its bias is as large, and would have to be kept instead";
    if (why) {
        explain(t, grad, why);
        return;
    }
    keep_statistics(forward, t->end);
    tc_node *tiled = tc_tiled_gradient(grad, forward);
    tc_node_insert_before(tiled, grad);
    for (uint32_t i = 0; i < grad->n_outputs; i++)
        if (grad->outputs[i])
            tc_node_set_output(tiled, i, tc_node_take_output(grad, i));
    tc_node_erase(grad);
    tc_forget_maps(forward);
    t->row->matched++;
}

tc_status tc_pass_tile(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    const tc_value *loss;
    if (tc_defer_to_budget(env, TC_DEFER_TILE))
        return TC_OK;
    TC_TRY(tc_lean_begin(env, graph, &loss));
    if (!loss)
        return TC_OK;
    tiling t = {env, graph, tc_forward_first(graph, loss), tc_summary_rule(env, "attention_tiled")};
    if (tc_is_disabled(env->options, t.row->name))
        return TC_OK;
    tc_dim before = tc_kept_bytes(graph, (void *)loss);
    TC_FOR_NODES_SAFE(node, graph)
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttentionGrad"))
            tile(&t, node);
    TC_FOR_NODES(node, graph) /* nodes after it are removed */
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "DotProductAttentionTiledGrad"))
            tc_sum_in_tiles(node);
    tc_dim_pool *pool = model->dims;
    t.row->bytes_freed =
        tc_dim_add(pool, t.row->bytes_freed, tc_dim_sub(pool, before, tc_kept_bytes(graph, (void *)loss)));
    return TC_OK;
}
