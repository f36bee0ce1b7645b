/* safetensors_tool: the reader and writer of safetensors files alone, for check_safetensors.py. Prints diagnostics; the
 * exit code is the status.
 * safetensors_tool IN OUT     reads, then writes the same tensors and metadata
 * safetensors_tool IN         reads, then prints for each array 0 where its elements lie at a multiple of their
 *                             size */
#include "compiler/cli/cli.h"
#include "runtime/files/files.h"

static void print_place(const tempo_tensor *tensor) {
    printf("%zu\n", tensor->bytes > 0 ? (uintptr_t)tensor->data % tempo_dtype_size(tensor->dtype) : 0);
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    rt_safetensors s;
    tc_status status = TC_OK;
    TC_TRY(rt_safetensors_open(ctx, argv[1], &s));
    if (argc > 2)
        status = rt_safetensors_write(ctx, argv[2], s.arrays, s.n, s.metadata, s.n_metadata);
    for (size_t i = 0; argc == 2 && i < s.n; i++)
        print_place(&s.arrays[i].tensor);
    rt_safetensors_close(&s);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return TC_USAGE;
    return tc_program("safetensors_tool", run, argc, argv);
}
