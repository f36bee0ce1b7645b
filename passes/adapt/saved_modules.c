/* saved_modules.c: weights that an adapter's file has whole, of PEFT's modules_to_save: they take the place of the
 * file's own, and are trained. */
#include "compiler/cli/cli.h"
#include "lora_nodes.h"
#include "passes/torch/metadata/metadata.h"
#include "passes/weights/weights.h"
#include <string.h>

bool tc_ends_alike(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    const char *longer = n > m ? a : b, *shorter = n > m ? b : a;
    size_t more = n > m ? n - m : m - n;
    return more > 0 && longer[more - 1] == '.' && strcmp(longer + more, shorter) == 0;
}

tc_tensor *tc_adapter_tensor(tc_model *model, const tc_tensor *from, tc_dtype dtype, bool transposed) {
    const int64_t swapped[] = {from->rank == 2 ? from->dims[1] : 0, from->rank == 2 ? from->dims[0] : 0};
    tc_tensor *to = tc_tensor_create(model, dtype, from->rank, transposed ? swapped : from->dims, NULL);
    const uint64_t rows = transposed ? (uint64_t)from->dims[0] : 1, columns = from->count / (rows ? rows : 1);
    for (uint64_t i = 0; i < to->count; i++)
        tc_element_set(dtype, (void *)(uintptr_t)to->data, i,
                       tc_tensor_get(from, transposed ? i % rows * columns + i / rows : i));
    return to;
}

static tc_torch_name name_of(const tc_pass_env *env, const tc_value *value) {
    const tc_torch_name *recorded = tc_torch_name_of(env->summary, value->name);
    tc_torch_name found;
    if (recorded)
        return *recorded;
    return tc_script_name(env->ctx->arena, value, &found) ? found : (tc_torch_name){value->name, TC_TORCH_AS_IT_IS};
}

static tc_status refuse(const tc_pass_env *env, const char *name, const char *why, const char *hint) {
    tc_ctx *ctx = env->ctx;
    tc_error(ctx, TC_BAD_INPUT, NULL, "%s has a trained %s, and %s", tc_quote(ctx, env->options->adapter->path),
             tc_quote(ctx, name), why);
    tc_hint(ctx, "%s", hint);
    return TC_BAD_INPUT;
}

/* The file's weight: the one of that name, else the only one whose name ends alike. */
static tc_status find(const tc_pass_env *env, const tc_graph *graph, const char *name, tc_value **out_value,
                      tc_torch_layout *out_layout) {
    tc_nearest nearest;
    tc_nearest_begin(&nearest, name);
    *out_value = NULL;
    for (size_t step = 0; step < 2 && !*out_value; step++)
        for (uint32_t i = 0; i < graph->n_initializers; i++) {
            const tc_torch_name own = name_of(env, graph->initializers[i]);
            tc_nearest_offer(&nearest, own.name);
            if (step == 0 ? strcmp(own.name, name) != 0 : !tc_ends_alike(own.name, name))
                continue;
            if (*out_value)
                return refuse(env, name, "the file has several weights whose names end so",
                              "is it the adapter of another model?");
            *out_value = graph->initializers[i], *out_layout = own.layout;
        }
    if (*out_value)
        return TC_OK;
    return refuse(env, name, "the file has no such weight",
                  nearest.best ? tc_arena_printf(env->ctx->arena, "the nearest name in the file is %s",
                                                 tc_quote(env->ctx, nearest.best))
                               : "is it the adapter of another model?");
}

static tc_status put(tc_pass_env *env, tc_graph *graph, const tc_adapter_saved *saved) {
    tc_arena *arena = env->ctx->arena;
    tc_value *value;
    tc_torch_layout layout;
    TC_TRY(find(env, graph, saved->name, &value, &layout));
    const bool transposed = layout == TC_TORCH_TRANSPOSED && saved->tensor->rank == 2;
    if ((layout != TC_TORCH_AS_IT_IS && !transposed) || !tc_dtype_is_float(value->init->dtype))
        return refuse(env, saved->name, "the file does not say how its weight comes from PyTorch's",
                      "export with optimize=False to keep parameters as they are");
    const tc_tensor *own = value->init;
    tc_tensor *tensor = tc_adapter_tensor(graph->model, saved->tensor, own->dtype, transposed);
    if (tensor->rank != own->rank || memcmp(tensor->dims, own->dims, (size_t)own->rank * sizeof *own->dims) != 0) {
        const tc_type *there = tc_type_tensor_static(graph->model, tensor->dtype, tensor->rank, tensor->dims);
        const tc_type *here = tc_type_tensor_static(graph->model, own->dtype, own->rank, own->dims);
        return refuse(env, saved->name,
                      tc_arena_printf(arena, "it is %s there and %s in the file", tc_type_text(arena, there),
                                      tc_type_text(arena, here)),
                      "a classifier of other classes fits after --head=N");
    }
    tensor->name = value->name;
    value->init = tensor;
    tc_record_made(env, value);
    return TC_OK;
}

tc_status tc_put_saved_modules(tc_pass_env *env, tc_graph *graph) {
    const tc_adapter *adapter = env->options->adapter;
    const char **names = TC_NEW_ARRAY(env->ctx->arena, const char *, (adapter ? adapter->n_saved : 0) + 1);
    for (size_t i = 0; adapter && i < adapter->n_saved; i++) {
        TC_TRY(put(env, graph, &adapter->saved[i]));
        names[i] = adapter->saved[i].name;
    }
    if (adapter && adapter->n_saved)
        tc_note(env->ctx, NULL, "weights of modules_to_save are the adapter's, and are trained with it: %s",
                tc_quote_list(env->ctx, names, adapter->n_saved));
    return TC_OK;
}
