/* fuzz_zip.c: any bytes -> members of an archive -> arrays in place. Nothing may crash or hang; what is found lies
 * inside the archive. */
#include "compiler/base/base.h"
#include "runtime/files/files.h"
#include "programs/tempo-train/data/train_zip.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink;

static void look(tc_ctx *ctx, const uint8_t *archive, size_t size, const train_zip_member *member) {
    const unsigned char *data;
    rt_npy npy;
    if (!member->stored || train_zip_data(ctx, archive, size, member, &data) != TC_OK)
        return;
    if (data < archive || data > archive + size || member->bytes > (size_t)(archive + size - data))
        abort();
    if (rt_npy_parse(ctx, member->name, data, (size_t)member->bytes, &npy) == TC_OK && npy.bytes > 0)
        sink = (unsigned char)(data[npy.header] ^ data[npy.header + npy.bytes - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tc_ctx ctx;
    train_zip_member *members;
    size_t n;
    tc_ctx_init(&ctx, "fuzz_zip");
    tc_status status = train_zip_list(&ctx, ctx.arena, data, size, &members, &n);
    if (status != TC_OK && (status != TC_BAD_INPUT || ctx.n_diags != 1))
        abort();
    for (size_t i = 0; status == TC_OK && i < n; i++)
        look(&ctx, data, size, &members[i]);
    tc_ctx_fini(&ctx);
    return 0;
}
