/* dump_batches.c: dump_batches DATA OUT.npz --input=NAME=TYPE ... [options]: the batches that tempo-train would make of
 * DATA for such inputs, as arrays EPOCH.INDEX.NAME of OUT.npz, beside EPOCH.INDEX.counts: samples and tokens, of this
 * rank and of all; and `source`: samples, batches, the hash. A TYPE is int64[?,128]; "NAME=TYPE optional" has a
 * default, "NAME=TYPE padding -100" is padded with that. */
#include "compiler/ir/ir.h"
#include "compiler/cli/cli.h"
#include "programs/tempo-train/data/train_data.h"
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char **inputs, **pads;
    size_t n_inputs, n_pads;
    int64_t batch, rank, ranks, epochs, from, seed, multiple, most, pack, bucket, limit;
    bool shuffle, drop_last;
} options;

#define OPTION(...) TC_OPTION(options, USUAL, __VA_ARGS__)
static const tc_option rows[] = {
    OPTION(LIST, inputs, n_inputs, "input", 0, "SPEC", NULL, "All", "an input"),
    OPTION(LIST, pads, n_pads, "pad", 0, "SPEC", NULL, "All", "padding"),
    OPTION(COUNT, batch, batch, "batch", 0, "N", "4", "All", "samples"),
    OPTION(COUNT, rank, rank, "rank", 0, "N", "0", "All", "rank"),
    OPTION(COUNT, ranks, ranks, "ranks", 0, "N", "1", "All", "ranks"),
    OPTION(COUNT, epochs, epochs, "epochs", 0, "N", "1", "All", "epochs"),
    OPTION(COUNT, from, from, "from", 0, "N", "0", "All", "the first batch"),
    OPTION(COUNT, limit, limit, "limit", 0, "N", "1000000", "All", "batches of an epoch at most"),
    OPTION(COUNT, seed, seed, "seed", 0, "N", "0", "All", "seed"),
    OPTION(COUNT, multiple, multiple, "pad-multiple", 0, "N", "0", "All", "lengths are multiples"),
    OPTION(COUNT, most, most, "max-length", 0, "N", "0", "All", "cut"),
    OPTION(COUNT, pack, pack, "pack", 0, "N", "0", "All", "pack"),
    OPTION(COUNT, bucket, bucket, "bucket", 0, "N", "0", "All", "bucket"),
    OPTION(SWITCH, shuffle, shuffle, "shuffle", 0, NULL, NULL, "All", "shuffle"),
    OPTION(SWITCH, drop_last, drop_last, "drop-last", 0, NULL, NULL, "All", "drop the last"),
};
static const tc_option_table table = {.tool = "dump_batches",
                                      .summary = "dumps batches",
                                      .usage = "DATA OUT.npz",
                                      .options = rows,
                                      .n_options = TC_COUNT(rows)};

/* --- inputs ----------------------------------------------------------------------------------- */

static tc_status parse_input(tc_ctx *ctx, const char *spec, train_input *out) {
    const char *equals = strchr(spec, '='), *open = equals ? strchr(equals, '[') : NULL;
    if (!open)
        return tc_error(ctx, TC_USAGE, NULL, "--input=%s: expected NAME=TYPE[DIMS]", spec);
    int64_t *dims = TC_NEW_ARRAY(ctx->arena, int64_t, strlen(spec));
    tc_dtype dtype = tc_dtype_from_name(tc_arena_strndup(ctx->arena, equals + 1, (size_t)(open - equals - 1)));
    *out = (train_input){.name = tc_arena_strndup(ctx->arena, spec, (size_t)(equals - spec)),
                         .dtype = (tempo_dtype)dtype,
                         .dims = dims,
                         .optional = strstr(open, " optional") != NULL};
    const char *padding = strstr(open, " padding ");
    out->padding = padding ? atof(padding + 9) : 0;
    for (const char *at = open + 1; *at && *at != ']'; at += *at == ',') {
        char *end = NULL;
        dims[out->rank++] = *at == '?' ? -1 : strtoll(at, &end, 10);
        at = *at == '?' ? at + 1 : end;
    }
    return TC_OK;
}

/* --- outputs ---------------------------------------------------------------------------------- */

typedef struct dump {
    tc_arena *arena;
    rt_array *arrays;
    size_t n, cap;
} dump;

static void keep(dump *out, const char *name, const tempo_tensor *t) {
    out->arrays = tc_arena_grow(out->arena, out->arrays, sizeof *out->arrays, &out->cap, out->n + 1);
    int64_t *dims = TC_NEW_ARRAY(out->arena, int64_t, (size_t)t->rank + 1);
    void *data = tc_arena_alloc(out->arena, t->bytes + 1, 1);
    if (t->rank > 0)
        memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    if (t->bytes > 0)
        memcpy(data, t->data, t->bytes);
    out->arrays[out->n++] = (rt_array){.name = name, .tensor = {t->dtype, t->rank, dims, data, t->bytes}};
}

static void keep_numbers(dump *out, const char *name, int64_t *numbers, int64_t n) {
    keep(out, name, &(tempo_tensor){TEMPO_INT64, 1, &n, numbers, (size_t)n * sizeof *numbers});
}

static tc_status dump_epoch(tc_ctx *ctx, const options *o, train_data *data, int64_t epoch, dump *out) {
    int64_t end = train_data_batches(data) < o->limit ? train_data_batches(data) : o->limit;
    for (int64_t i = o->from; i < end; i++) {
        train_batch batch;
        TC_TRY(train_data_batch(ctx, data, epoch, i, &batch));
        const char *prefix = tc_arena_printf(out->arena, "%lld.%lld", (long long)epoch, (long long)i);
        for (size_t k = 0; k < batch.n; k++)
            keep(out, tc_arena_printf(out->arena, "%s.%s", prefix, batch.arrays[k].name), &batch.arrays[k].tensor);
        int64_t counts[] = {batch.samples, batch.all_samples, batch.tokens, batch.all_tokens};
        keep_numbers(out, tc_arena_printf(out->arena, "%s.counts", prefix), counts, TC_COUNT(counts));
    }
    return TC_OK;
}

static tc_status dump_all(tc_ctx *ctx, const options *o, train_data *data, const char *path) {
    dump out = {.arena = tc_arena_create()};
    int64_t source[] = {train_data_samples(data), train_data_batches(data), (int64_t)train_data_hash(data)};
    keep_numbers(&out, "source", source, TC_COUNT(source));
    tc_status status = TC_OK;
    for (int64_t epoch = 0; status == TC_OK && epoch < o->epochs; epoch++)
        status = dump_epoch(ctx, o, data, epoch, &out);
    if (status == TC_OK)
        status = rt_npz_write(ctx, path, out.arrays, out.n);
    tc_arena_destroy(out.arena);
    return status;
}

static tc_status run(tc_ctx *ctx, int argc, char **argv) {
    options o = {0};
    tc_arguments arguments;
    TC_TRY(tc_options_parse(ctx, &table, argc, argv, stdout, &o, &arguments));
    if (arguments.done)
        return TC_OK;
    if (arguments.count != 2)
        return tc_error(ctx, TC_USAGE, NULL, "expected DATA and OUT.npz");
    train_input *inputs = TC_NEW_ARRAY(ctx->arena, train_input, o.n_inputs + 1);
    for (size_t i = 0; i < o.n_inputs; i++)
        TC_TRY(parse_input(ctx, o.inputs[i], &inputs[i]));
    train_data_options asked = {arguments.items[0], o.batch,      (uint64_t)o.seed, o.shuffle, o.drop_last,
                                (int)o.rank,        (int)o.ranks, o.multiple,       o.most,    o.pads,
                                o.n_pads,           o.pack,       o.bucket};
    train_data *data;
    TC_TRY(train_data_open(ctx, &asked, inputs, o.n_inputs, &data));
    tc_status status = dump_all(ctx, &o, data, arguments.items[1]);
    train_data_close(data);
    return status;
}

int main(int argc, char **argv) { return tc_program("dump_batches", run, argc, argv); }
