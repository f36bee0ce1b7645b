/* fuzz_checkpoint.c: any bytes -> reader of checkpoints. Nothing may crash, leak or hang; what it gives lies in the
 * bytes, under names that differ. */
#include "compiler/onnx/checkpoint.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_tensor(const tc_tensor *t, const uint8_t *bytes, size_t size) {
    uint64_t count;
    const uint8_t *data = t->data, *name = (const uint8_t *)t->name;
    must(data >= bytes && t->bytes <= size && data <= bytes + size - t->bytes, "elements outside of the file");
    must(name > bytes && name + strlen(t->name) < bytes + size && *name, "a name outside of the file, or none");
    must(tc_shape_count(t->rank, t->dims, &count) && count == t->count &&
             tc_tensor_bytes(t->dtype, count) == t->bytes && tc_dtype_bits(t->dtype) >= 8,
         "dims, type and bytes do not agree");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tc_ctx ctx;
    tc_tensor *tensors = NULL;
    size_t n = 0;
    tc_ctx_init(&ctx, "fuzz_checkpoint");
    uint8_t *copy = malloc(size ? size : 1); /* of exact size: reading behind the end shows */
    memcpy(copy, data, size);
    tc_status status = tc_checkpoint_read(&ctx, copy, size, &tensors, &n);
    must(ctx.n_diags == (status != TC_OK), "refused without exactly one diagnostic, or not refused with one");
    for (size_t i = 0; i < n; i++)
        check_tensor(&tensors[i], copy, size);
    must(tc_arena_bytes(ctx.arena) <= (256u << 10) + 64 * size, "too much memory for the file");
    free(copy);
    tc_ctx_fini(&ctx);
    return 0;
}
