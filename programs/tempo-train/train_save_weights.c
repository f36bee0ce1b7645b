/* train_save_weights.c: --save-weights: the trained weights as PyTorch has them, by the names and layouts in the file's
 * metadata (passes/torch/metadata/torch_names.h). A weight that cannot be converted back is left out, and named. */
#include "compiler/onnx/onnx.h"
#include "compiler/base/base.h"
#include "train_run.h"
#include "passes/torch/metadata/metadata.h"
#include "runtime/files/files.h"
#include <string.h>

static tempo_tensor transposed(tc_arena *arena, const tempo_tensor *t) {
    int64_t *dims = TC_NEW_ARRAY(arena, int64_t, 2);
    size_t rows = (size_t)t->dims[0], columns = (size_t)t->dims[1], size = tempo_dtype_size(t->dtype);
    char *to = tc_arena_alloc(arena, t->bytes + 1, 1);
    const char *from = t->data;
    dims[0] = t->dims[1];
    dims[1] = t->dims[0];
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            memcpy(to + (k * rows + i) * size, from + (i * columns + k) * size, size);
    return (tempo_tensor){t->dtype, 2, dims, to, t->bytes};
}

static tempo_tensor flattened(tc_arena *arena, const tempo_tensor *t) {
    int64_t *dims = TC_NEW_ARRAY(arena, int64_t, 1);
    dims[0] = (int64_t)(t->bytes / tempo_dtype_size(t->dtype));
    return (tempo_tensor){t->dtype, 1, dims, t->data, t->bytes};
}

/* The parameter of the weight, as passes found it, or as the file's nodes show it. */
static bool find_name(tc_arena *arena, const train_run *r, const tc_model *file, const char *weight,
                      tc_torch_name *out) {
    const tc_value *value = tc_map_get(file->graph->names, weight);
    return tc_torch_kept_name(arena, r->graph.session->model, weight, out) ||
           (value && tc_script_name(arena, value, out));
}

bool train_put_back(tc_arena *arena, const train_run *r, const tc_model *file, const rt_array *weight, rt_array *out) {
    tc_torch_name name;
    *out = *weight;
    if (!find_name(arena, r, file, weight->name, &name))
        return true;
    out->name = name.name;
    switch (name.layout) {
    case TC_TORCH_AS_IT_IS: return true;
    case TC_TORCH_TRANSPOSED: out->tensor = transposed(arena, &weight->tensor); return weight->tensor.rank == 2;
    case TC_TORCH_FLATTENED: out->tensor = flattened(arena, &weight->tensor); return true;
    case TC_TORCH_RESHAPED:
    case TC_TORCH_ROWS:
    case TC_TORCH_SHIFTED:
    case TC_TORCH_OTHER: break;
    }
    return false;
}

static tc_status write_weights(train_run *r, tc_arena *arena, const tc_model *file) {
    const tc_pair metadata[] = {{"format", "pt"}, {"writer", TC_WRITTEN_WEIGHTS_BY}};
    rt_array *weights;
    size_t n, n_put = 0, n_left = 0;
    TC_TRY(train_list_states(r, arena, true, &weights, &n));
    rt_array *put = TC_NEW_ARRAY(arena, rt_array, n + 1);
    const char **left = TC_NEW_ARRAY(arena, const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        if (train_put_back(arena, r, file, &weights[i], &put[n_put]))
            n_put++;
        else
            left[n_left++] = tc_arena_printf(arena, "%s (%s)", put[n_put].name, weights[i].name);
    if (n_left > 0) {
        tc_warn(r->ctx, NULL,
                "--save-weights: %zu of %zu weights are left out, since the file does not say how they come from "
                "PyTorch's: %s",
                n_left, n, tc_quote_list(r->ctx, left, n_left));
        tc_hint(r->ctx, "--save has them all; export with optimize=False to keep parameters as they are");
    }
    return rt_safetensors_write(r->ctx, r->o->save_weights, put, n_put, metadata, TC_COUNT(metadata));
}

tc_status train_save_weights(void *run) {
    train_run *r = run;
    if (!r->o->save_weights)
        return TC_OK;
    tc_model *file;
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, &file));
    tc_arena *arena = tc_arena_create();
    tc_status status = write_weights(r, arena, file);
    tc_arena_destroy(arena);
    tc_model_destroy(file);
    if (status == TC_OK)
        train_log_say(&r->log, "wrote %s", r->o->save_weights);
    return status;
}
