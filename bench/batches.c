/* batches.c: batches [SAMPLES]: how long one shuffled batch of 32 takes to make, for the kinds of samples that training
 * has, from files that the system holds in memory; beside it the bytes of the batch and how fast they come. Written
 * into a folder of its own that is removed. */
#include "programs/tempo-train/data/train_data.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, LENGTH = 128, PIXELS = 3 * 224 * 224, TIMES = 3 };

typedef struct sample_kind {
    const char *what;
    tempo_dtype stored;
    int rank; /* of the array */
    int64_t dims[3];
    bool ragged;
    train_data_options options;
    train_input inputs[3];
    size_t n_inputs;
} sample_kind;

static const int64_t any_text[] = {-1, -1}, image[] = {-1, PIXELS};
#define IDS                                                                                                            \
    { "x", TEMPO_INT64, 2, any_text, false, 0 }
#define LABELS                                                                                                         \
    { "labels", TEMPO_INT64, 2, any_text, false, -100 }
#define MASK                                                                                                           \
    { "attention_mask", TEMPO_INT64, 2, any_text, false, 0 }
static const sample_kind kinds[] = {
    {"text, int64[n,128]", TEMPO_INT64, 2, {0, LENGTH}, false, {.batch = BATCH}, {IDS, LABELS}, 2},
    {"text of 1 to 128 tokens, uint16", TEMPO_UINT16, 1, {0}, true, {.batch = BATCH}, {IDS, LABELS, MASK}, 3},
    {"the same, in buckets", TEMPO_UINT16, 1, {0}, true, {.batch = BATCH, .bucket = 50}, {IDS, LABELS, MASK}, 3},
    {"the same, packed to 128", TEMPO_UINT16, 1, {0}, true, {.batch = BATCH, .pack = LENGTH}, {IDS, LABELS}, 2},
    {"images, float[n,3*224*224]",
     TEMPO_FLOAT,
     2,
     {0, PIXELS},
     false,
     {.batch = BATCH},
     {{"x", TEMPO_FLOAT, 2, image}},
     1},
    {"images, uint8 for float",
     TEMPO_UINT8,
     2,
     {0, PIXELS},
     false,
     {.batch = BATCH},
     {{"x", TEMPO_FLOAT, 2, image}},
     1},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the file --------------------------------------------------------------------------------- */

static tc_status write_samples(tc_ctx *ctx, const sample_kind *kind, int64_t samples, const char *path) {
    int64_t dims[3], n_offsets = samples + 1;
    memcpy(dims, kind->dims, sizeof dims);
    int64_t *offsets = TC_NEW_ARRAY(ctx->arena, int64_t, (size_t)n_offsets);
    for (int64_t i = 0; i < samples; i++)
        offsets[i + 1] = offsets[i] + 1 + i * 7919 % LENGTH;
    dims[0] = kind->ragged ? offsets[samples] : samples;
    size_t bytes = (size_t)dims[0] * (size_t)(kind->rank > 1 ? dims[1] : 1) * tempo_dtype_size(kind->stored);
    void *data = tc_arena_alloc(ctx->arena, bytes, 1);
    const tempo_tensor tensor = {kind->stored, kind->rank, dims, data, bytes};
    const rt_array arrays[] = {
        {.name = "x", .tensor = tensor},
        {.name = "labels", .tensor = tensor},
        {.name = "x.offsets", .tensor = {TEMPO_INT64, 1, &n_offsets, offsets, (size_t)n_offsets * sizeof *offsets}},
    };
    return rt_npz_write(ctx, path, arrays, kind->ragged ? 3 : kind->n_inputs);
}

/* --- batches ---------------------------------------------------------------------------------- */

static tc_status time_batches(tc_ctx *ctx, const sample_kind *kind, train_data *data) {
    double best = 0, bytes = 0;
    int64_t n = train_data_batches(data);
    for (int64_t epoch = 0; epoch < TIMES; epoch++) { /* the first one maps pages */
        double begin = now();
        bytes = 0;
        for (int64_t i = 0; i < n; i++) {
            train_batch batch;
            TC_TRY(train_data_batch(ctx, data, epoch, i, &batch));
            for (size_t k = 0; k < batch.n; k++)
                bytes += (double)batch.arrays[k].tensor.bytes;
        }
        double seconds = now() - begin;
        best = epoch == 0 || seconds < best ? seconds : best;
    }
    printf("%-34s %10.1f us %10.1f KiB %8.2f GiB/s\n", kind->what, best / (double)n * 1e6, bytes / (double)n / 1024,
           bytes / best / (1 << 30));
    return TC_OK;
}

static tc_status measure(const sample_kind *kind, int64_t samples, const char *path) {
    tc_ctx ctx;
    train_data *data = NULL;
    train_data_options options = kind->options;
    tc_ctx_init(&ctx, "batches");
    options.path = path;
    options.shuffle = true;
    tc_status status = write_samples(&ctx, kind, samples, path);
    if (status == TC_OK)
        status = train_data_open(&ctx, &options, kind->inputs, kind->n_inputs, &data);
    if (status == TC_OK)
        status = time_batches(&ctx, kind, data);
    train_data_close(data);
    unlink(path);
    tc_diags_print(&ctx, stderr);
    tc_ctx_fini(&ctx);
    return status;
}

int main(int argc, char **argv) {
    int64_t samples = argc > 1 ? atoll(argv[1]) : 1000;
    char folder[] = "/tmp/batches_XXXXXX", path[64];
    tc_status status = mkdtemp(folder) ? TC_OK : TC_IO;
    snprintf(path, sizeof path, "%s/samples.npz", folder);
    for (size_t i = 0; i < TC_COUNT(kinds) && status == TC_OK; i++)
        status = measure(&kinds[i], samples, path);
    rmdir(folder);
    return status;
}
