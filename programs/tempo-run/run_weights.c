/* run_weights.c: `tempo-run --checkpoint`: weights from a file are bound to the graph's inputs. */
#include "run.h"
#include <string.h>

/* The elements at an address that is aligned for kernels. */
static const void *aligned(tc_ctx *ctx, const tc_tensor *tensor) {
    if ((uintptr_t)tensor->data % 16 == 0)
        return tensor->data;
    void *copy = tc_arena_alloc(ctx->arena, tensor->bytes + 1, 1);
    memcpy(copy, tensor->data, tensor->bytes);
    return copy;
}

tc_status run_bind_weights(tc_ctx *ctx, tempo_session *session, const rt_weights *weights) {
    for (size_t i = 0; i < weights->n; i++) {
        const tc_tensor *w = &weights->tensors[i];
        const rt_input *input = rt_find_input(session, w->name);
        if (!input) {
            tc_error(ctx, TC_BAD_INPUT, NULL, "--checkpoint: the model has no input '%s', which is in %s",
                     tc_quote(ctx, w->name), tc_quote(ctx, weights->path));
            tc_hint(ctx, "tempoc --checkpoint puts weights into a model");
            return TC_BAD_INPUT;
        }
        union {
            const void *in;
            void *out;
        } elements = {aligned(ctx, w)};
        const tempo_tensor tensor = {(tempo_dtype)w->dtype, w->rank, w->dims, elements.out, w->bytes};
        tempo_status status = (input->kept ? tempo_set_state : tempo_bind)(session, w->name, &tensor);
        if (status != TEMPO_OK)
            return run_failed(session, status);
    }
    return TC_OK;
}
