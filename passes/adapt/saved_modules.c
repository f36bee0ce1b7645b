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

tc_tensor *tc_adapter_tensor(tc_model *model, const tc_tensor *from, tc_dtype dtype) {
    tc_tensor *to = tc_tensor_create(model, dtype, from->rank, from->dims, NULL);
    for (uint64_t i = 0; i < to->count; i++)
        tc_element_set(dtype, (void *)(uintptr_t)to->data, i, tc_tensor_get(from, i));
    return to;
}

typedef struct putting {
    tc_ctx *ctx;
    const tc_summary *summary;
    const tc_adapter *adapter;
    const char *name; /* of the saved weight */
    tc_graph *graph;
} putting;

static tc_status refuse(const putting *p, const char *why, const char *hint) {
    tc_error(p->ctx, TC_BAD_INPUT, NULL, "%s has a trained %s, and %s", tc_quote(p->ctx, p->adapter->path),
             tc_quote(p->ctx, p->name), why);
    tc_hint(p->ctx, "%s", hint);
    return TC_BAD_INPUT;
}

static const char *hint_of_missing(const putting *p, const char *nearest) {
    if (tc_ends_with(p->name, ".bias"))
        return "PyTorch's exporter leaves biases of zeros out: tempo-train --merge --save writes a file that has them";
    return nearest ? tc_arena_printf(p->ctx->arena, "the nearest name in the file is %s", tc_quote(p->ctx, nearest))
                   : "is it the adapter of another model?";
}

/* The file's weight: the one of that name, else the only one whose name ends alike. */
static tc_status find(const putting *p, tc_value **out_value, tc_torch_layout *out_layout) {
    tc_nearest nearest;
    tc_nearest_begin(&nearest, p->name);
    *out_value = NULL;
    for (size_t step = 0; step < 2 && !*out_value; step++)
        for (uint32_t i = 0; i < p->graph->n_initializers; i++) {
            tc_value *value = p->graph->initializers[i];
            tc_torch_name own;
            if (!tc_torch_find_name(p->ctx->arena, p->summary, value, &own))
                own = (tc_torch_name){value->name, TC_TORCH_AS_IT_IS};
            tc_nearest_offer(&nearest, own.name);
            if (step == 0 ? strcmp(own.name, p->name) != 0 : !tc_ends_alike(own.name, p->name))
                continue;
            if (*out_value)
                return refuse(p, "the file has several weights whose names end so",
                              "is it the adapter of another model?");
            *out_value = value, *out_layout = own.layout;
        }
    return *out_value ? TC_OK : refuse(p, "the file has no such weight", hint_of_missing(p, nearest.best));
}

tc_status tc_put_saved(tc_ctx *ctx, const tc_summary *summary, const tc_adapter *adapter, const tc_adapter_saved *saved,
                       tc_graph *graph, tc_value **out_value) {
    const putting p = {ctx, summary, adapter, saved->name, graph};
    tc_model *model = graph->model;
    tc_torch_layout layout = TC_TORCH_OTHER;
    TC_TRY(find(&p, out_value, &layout));
    const tc_tensor *own = (*out_value)->init, *from = saved->tensor;
    const bool transposed = layout == TC_TORCH_TRANSPOSED && from->rank == 2;
    if ((layout != TC_TORCH_AS_IT_IS && !transposed) || !tc_dtype_is_float(own->dtype))
        return refuse(&p, "the file does not say how its weight comes from PyTorch's",
                      "export with optimize=False to keep parameters as they are");
    tc_tensor *tensor =
        tc_adapter_tensor(model, transposed ? tc_tensor_transposed(model, from, from->data) : from, own->dtype);
    const tc_type *there = tc_type_tensor_static(model, tensor->dtype, tensor->rank, tensor->dims);
    const tc_type *here = tc_type_tensor_static(model, own->dtype, own->rank, own->dims);
    if (!tc_type_equal(there, here))
        return refuse(&p,
                      tc_arena_printf(ctx->arena, "it is %s there and %s in the file", tc_type_text(ctx->arena, there),
                                      tc_type_text(ctx->arena, here)),
                      "a classifier of other classes fits after --head=N");
    tensor->name = (*out_value)->name;
    (*out_value)->init = tensor;
    return TC_OK;
}

/* Two names of one weight: of several adapters in one file it is not known which counts. */
static tc_status check_new(const putting *p, const tc_map *done, const tc_value *value) {
    const char *before = tc_map_get_ptr(done, value);
    return before
               ? refuse(p,
                        tc_arena_printf(p->ctx->arena, "it has %s, which is the same weight", tc_quote(p->ctx, before)),
                        "save the adapter that counts alone")
               : TC_OK;
}

tc_status tc_put_saved_modules(tc_pass_env *env, tc_graph *graph) {
    const tc_adapter *adapter = env->options->adapter;
    tc_ctx *ctx = env->ctx;
    if (!adapter || adapter->n_saved == 0)
        return TC_OK;
    const char **names = TC_NEW_ARRAY(ctx->arena, const char *, adapter->n_saved);
    tc_map *done = tc_map_create(ctx->arena);
    for (size_t i = 0; i < adapter->n_saved; i++) {
        tc_value *value;
        names[i] = adapter->saved[i].name;
        TC_TRY(tc_put_saved(ctx, env->summary, adapter, &adapter->saved[i], graph, &value));
        TC_TRY(check_new(&(putting){ctx, env->summary, adapter, names[i], graph}, done, value));
        tc_map_set_ptr(done, value, (void *)(uintptr_t)names[i]);
        tc_record_made(env, value);
    }
    tc_note(ctx, NULL, "weights of modules_to_save are the adapter's, and are trained with it: %s",
            tc_quote_list(ctx, names, adapter->n_saved));
    return TC_OK;
}
