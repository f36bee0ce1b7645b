/* fuzz_safetensors.c: any bytes -> reader of safetensors files. Nothing may crash, leak or hang; what it gives covers
 * the elements of the file once, under names that differ, and is the same once more when it is written and read. */
#include "runtime/files/files.h"
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

/* `at`: where the elements of the tensor must begin. */
static uint64_t check_tensor(const tempo_tensor *t, const uint8_t *at) {
    uint64_t count;
    must(memcmp(t->data, at, t->bytes) == 0, "these are other bytes than those of the file");
    must((uintptr_t)t->data % tempo_dtype_size(t->dtype) == 0 || t->bytes == 0, "elements are not aligned");
    must(tc_shape_count(t->rank, t->dims, &count) && count * tempo_dtype_size(t->dtype) == t->bytes,
         "dims, type and bytes do not agree");
    return t->bytes;
}

static void check_header(tc_ctx *ctx, const rt_safetensors *s) {
    rt_safetensors_layout layout;
    rt_safetensors again;
    must(rt_safetensors_lay_out(ctx, s->arrays, s->n, s->metadata, s->n_metadata, &layout) == TC_OK,
         "what was read is refused by the writer");
    uint8_t *bytes = calloc(1, layout.bytes);
    memcpy(bytes, layout.header, layout.header_bytes);
    must(rt_safetensors_read(ctx, bytes, layout.bytes, &again) == TC_OK, "what the writer makes is refused");
    must(again.n == s->n && again.n_metadata == s->n_metadata, "the writer makes something else");
    for (size_t i = 0; i < s->n; i++)
        must(s->n > 100 || rt_safetensors_find(&again, s->arrays[i].name), "a tensor is lost");
    for (size_t i = 0; i < s->n_metadata; i++)
        must(strcmp(again.metadata[i].value, s->metadata[i].value) == 0, "metadata are other ones");
    rt_safetensors_close(&again);
    rt_safetensors_free_layout(&layout);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tc_ctx ctx;
    rt_safetensors s;
    tc_ctx_init(&ctx, "fuzz_safetensors");
    uint8_t *copy = malloc(size ? size : 1); /* of exact size: reading behind the end shows */
    memcpy(copy, data, size);
    tc_status status = rt_safetensors_read(&ctx, copy, size, &s);
    must(ctx.n_diags == (status != TC_OK), "refused without exactly one diagnostic, or not refused with one");
    if (status == TC_OK) {
        uint64_t at = s.header;
        for (size_t i = 0; i < s.n; i++)
            at += check_tensor(&s.arrays[i].tensor, copy + at);
        must(at == size, "bytes of the file are in no tensor");
        must(tc_arena_bytes(s.arena) <= (256u << 10) + 64 * size, "too much memory for the file");
        check_header(&ctx, &s);
        rt_safetensors_close(&s);
    }
    free(copy);
    tc_ctx_fini(&ctx);
    return 0;
}
