/* merge.c: an adapter -> the weight it stands beside: W + s B A; under DoRA each row of that, as PyTorch has it, gets
 * the length `magnitude`. Sums are of doubles, rounded once to the weight's type. */
#include "adapt.h"
#include <math.h>
#include <string.h>

/* A reader that the adapter is not for: the weight cannot change for it. */
static const tc_node *other_reader(const tc_value *value) {
    static const char *const ways[] = {"Transpose", "Identity", "Cast"};
    TC_FOR_USES(use, value) {
        const tc_node *node = use->user, *found = node;
        for (size_t i = 0; i < TC_COUNT(ways); i++)
            if (tc_node_is(node, "", ways[i]))
                found = other_reader(node->outputs[0]);
        if (found && !tc_node_is(found, "", "MatMul") && !tc_node_is(found, "", "Gemm"))
            return found;
    }
    return NULL;
}

tc_status tc_check_merge(tc_ctx *ctx, const tc_model *model, const tc_adapted *adapted, size_t n) {
    tc_map *modules = tc_map_create(ctx->arena);
    for (size_t i = 0; i < n; i++) {
        const char *weight = tc_quote(ctx, adapted[i].weight), *module = tc_quote(ctx, adapted[i].module);
        const tc_value *value = tc_map_get(model->graph->names, adapted[i].weight);
        const tc_node *other = value ? other_reader(value) : NULL;
        const char *second = tc_map_get(modules, adapted[i].weight);
        if (other)
            tc_error(ctx, TC_UNSUPPORTED, other, "--merge: it reads %s, too, the weight of %s, and has no adapter",
                     weight, module);
        else if (second)
            tc_error(ctx, TC_UNSUPPORTED, NULL, "--merge: %s and %s have adapters and one weight, %s", second, module,
                     weight);
        tc_map_set(modules, adapted[i].weight, (void *)(uintptr_t)module);
        if (!other && !second)
            continue;
        tc_hint(ctx, "without --merge, the adapter stays beside the weight");
        return TC_UNSUPPORTED;
    }
    return TC_OK;
}

static double *doubles(tc_arena *arena, const tc_tensor *t) {
    double *all = TC_NEW_ARRAY(arena, double, t->count + 1);
    for (uint64_t i = 0; i < t->count; i++)
        all[i] = tc_tensor_get(t, i);
    return all;
}

/* A row of W + s B A; `w` has data. */
static void add_row(const tc_tensor *w, bool turned, int64_t row, int64_t out, int64_t in, const double *a,
                    const double *b, int64_t rank, double scale, double *sum) {
    for (int64_t k = 0; k < in; k++)
        sum[k] = tc_tensor_get(w, (uint64_t)(turned ? k * out + row : row * in + k));
    for (int64_t j = 0; j < rank; j++) {
        const double factor = scale * b[row * rank + j];
        for (int64_t k = 0; k < in; k++)
            sum[k] += factor * a[j * in + k];
    }
}

static double norm_of(const double *row, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += row[k] * row[k];
    return sqrt(sum);
}

static void merge(tc_arena *scratch, const tc_adapted *adapted, const tc_lora_tensors *t, const tc_tensor *w,
                  tc_tensor *to) {
    const bool turned = adapted->turned;
    const int64_t out = w->dims[turned ? 1 : 0], in = w->dims[turned ? 0 : 1], rank = t->a->dims[0];
    const double *a = doubles(scratch, t->a), *b = doubles(scratch, t->b), scale = tc_lora_scale(&adapted->lora);
    double *sum = TC_NEW_ARRAY(scratch, double, (size_t)in + 1);
    for (int64_t row = 0; row < out; row++) {
        add_row(w, turned, row, out, in, a, b, rank, scale, sum);
        double factor = t->magnitude ? tc_tensor_get(t->magnitude, (uint64_t)row) / norm_of(sum, in) : 1;
        for (int64_t k = 0; k < in; k++)
            tc_element_set(to->dtype, (void *)(uintptr_t)to->data, (uint64_t)(turned ? k * out + row : row * in + k),
                           factor * sum[k]);
    }
}

tc_status tc_merge_adapter(tc_ctx *ctx, tc_model *model, const tc_adapted *adapted, const tc_lora_tensors *tensors) {
    tc_value *weight = tc_map_get(model->graph->names, adapted->weight);
    const void *data;
    if (!weight || !weight->init || weight->init->rank != 2)
        return tc_error(ctx, TC_UNSUPPORTED, NULL, "--merge: the file has no initializer '%s', the weight of %s",
                        tc_quote(ctx, adapted->weight), tc_quote(ctx, adapted->module));
    TC_TRY(tc_tensor_map(ctx, model, weight->init, &data));
    tc_tensor w = *weight->init, *to = tc_tensor_create(model, w.dtype, w.rank, w.dims, NULL);
    tc_arena *scratch = tc_arena_create();
    w.data = data;
    to->name = w.name;
    merge(scratch, adapted, tensors, &w, to);
    weight->init = to;
    tc_arena_destroy(scratch);
    return TC_OK;
}
