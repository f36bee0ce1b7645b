/* train_data.c: opens a source of samples and closes it. Which array is for which input: train_columns.c; the parts in
 * each file: train_parts.c; the samples of a batch: train_pick.c; its arrays: train_batch.c. */
#include "train_data.h"
#include "train_parts.h"
#include <stdlib.h>
#include <string.h>

enum { PAD_MULTIPLE = 8 };

/* --- options ---------------------------------------------------------------------------------- */

static tc_status check_options(tc_ctx *ctx, train_data_options *o) {
    o->ranks = o->ranks > 0 ? o->ranks : 1;
    o->pad_multiple = o->pad_multiple > 0 ? o->pad_multiple : PAD_MULTIPLE;
    TC_ASSERT(o->rank >= 0 && o->rank < o->ranks);
    if (o->batch < 1 || o->batch > INT32_MAX)
        return tc_error(ctx, TC_USAGE, NULL, "--batch: expected a number from 1 to 2147483647");
    if (o->bucket < 0 || o->bucket > 1 << 20 || o->pad_multiple > 1 << 20)
        return tc_error(ctx, TC_USAGE, NULL, "--bucket and --pad-multiple go from 0 to 1048576");
    if (o->pack < 0 || o->max_length < 0)
        return tc_error(ctx, TC_USAGE, NULL, "--pack and --max-length are numbers of tokens");
    if (o->pack > 0 && (o->max_length > 0 || o->bucket > 1))
        return tc_error(ctx, TC_USAGE, NULL,
                        "--pack makes rows of one length: it cannot be combined with --max-length or --bucket");
    return TC_OK;
}

static tc_map *wanted_names(tc_arena *arena, const train_input *inputs, size_t n) {
    tc_map *wanted = tc_map_create(arena);
    for (size_t i = 0; i < n; i++) {
        tc_map_set(wanted, tc_arena_strdup(arena, inputs[i].name), wanted);
        tc_map_set(wanted, tc_arena_printf(arena, "%s.offsets", inputs[i].name), wanted);
    }
    return wanted;
}

/* --- numbers of samples ----------------------------------------------------------------------- */

static tc_status count(tc_ctx *ctx, train_data *d) {
    const train_data_options *o = &d->options;
    int64_t all = d->first[d->source.n];
    d->samples = o->pack > 0 ? all / o->pack : all;
    if (d->samples == 0 && all > 0)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "'%s' has %lld tokens, fewer than a row of --pack=%lld",
                        tc_quote(ctx, o->path), (long long)all, (long long)o->pack);
    if (d->samples == 0)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "'%s' has no samples", tc_quote(ctx, o->path));
    if (o->pack > 0 && all % o->pack > 0)
        tc_note(ctx, NULL, "%lld tokens at the end of '%s' make no whole row of %lld, and are left out",
                (long long)(all % o->pack), tc_quote(ctx, o->path), (long long)o->pack);
    return TC_OK;
}

/* A model whose batch is a number takes batches of exactly that many samples. */
static tc_status check_fixed_batch(tc_ctx *ctx, train_data *d) {
    for (size_t i = 0; i < d->n_columns; i++) {
        const train_column *c = &d->columns[i];
        if (c->kind == TRAIN_CONSTANT || c->input.dims[0] < 0)
            continue;
        if (c->input.dims[0] != d->options.batch) {
            tc_error(ctx, TC_BAD_INPUT, NULL, "batches of %lld samples, but input '%s' is %s",
                     (long long)d->options.batch, tc_quote(ctx, c->input.name),
                     train_type_text(ctx, c->input.dtype, c->input.rank, c->input.dims));
            tc_hint(ctx, "--batch=%lld, or an export with a symbolic batch", (long long)c->input.dims[0]);
            return TC_BAD_INPUT;
        }
        d->options.drop_last = true;
    }
    return TC_OK;
}

static tc_status count_batches(tc_ctx *ctx, train_data *d) {
    bool asked = d->options.drop_last;
    TC_TRY(check_fixed_batch(ctx, d));
    d->together = d->options.batch * d->options.ranks;
    int64_t left = d->samples % d->together;
    d->batches = d->samples / d->together + (left > 0 && !d->options.drop_last);
    if (d->batches == 0) {
        tc_error(ctx, TC_BAD_INPUT, NULL, "'%s' has %lld samples, fewer than a batch of %lld",
                 tc_quote(ctx, d->options.path), (long long)d->samples, (long long)d->together);
        tc_hint(ctx, "a smaller --batch, or a model with a symbolic batch, without --drop-last");
        return TC_BAD_INPUT;
    }
    if (left > 0 && d->options.drop_last && !asked)
        tc_note(ctx, NULL,
                "the model's batch is a number: of each epoch %lld of %lld samples, which make no whole batch, "
                "are left out",
                (long long)left, (long long)d->samples);
    return TC_OK;
}

static bool is_integer(tempo_dtype dtype) { return dtype == TEMPO_INT64 || dtype == TEMPO_INT32; }

static bool is_mask(const train_column *c) {
    return c->kind == TRAIN_ROWS && strcmp(c->input.name, "attention_mask") == 0;
}

/* The column by which tokens are counted. */
static void find_counted(train_data *d) {
    d->counted = d->lead;
    for (size_t i = 0; i < d->n_columns && d->counted == d->n_columns; i++)
        if (is_mask(&d->columns[i])) {
            d->counted = i;
            d->counted_is_mask = true;
        }
    for (size_t i = 0; i < d->n_columns && d->counted == d->n_columns; i++)
        if (d->columns[i].kind == TRAIN_ROWS && d->columns[i].rank == 1 && is_integer(d->columns[i].input.dtype))
            d->counted = i;
}

static void make_tables(train_data *d) {
    const train_data_options *o = &d->options;
    int64_t most = d->together < d->samples ? d->together : d->samples;
    d->picked = TC_NEW_ARRAY(d->arena, uint64_t, (size_t)most + 1);
    d->arrays = TC_NEW_ARRAY(d->arena, rt_array, d->n_columns + 1);
    d->order_epoch = d->window.index = -1;
    if (d->lead == d->n_columns)
        d->options.bucket = 0;
    if (o->bucket > 1) {
        most = d->together * o->bucket < d->samples ? d->together * o->bucket : d->samples;
        d->window.samples = TC_NEW_ARRAY(d->arena, uint64_t, (size_t)most + 1);
    }
    for (size_t i = 0; i < d->n_columns; i++)
        d->columns[i].batch_dims = TC_NEW_ARRAY(d->arena, int64_t, (size_t)d->columns[i].rank + 2);
    find_counted(d);
}

/* --- opening ---------------------------------------------------------------------------------- */

static tc_status open_data(tc_ctx *ctx, train_data *d, const train_input *inputs, size_t n) {
    TC_TRY(check_options(ctx, &d->options));
    TC_TRY(train_files_open(ctx, d->arena, d->options.path, wanted_names(d->arena, inputs, n), &d->source));
    TC_TRY(train_columns_decide(ctx, d, inputs, n));
    TC_TRY(train_parts_take(ctx, d));
    TC_TRY(train_ragged_prepare(ctx, d));
    TC_TRY(count(ctx, d));
    TC_TRY(count_batches(ctx, d));
    make_tables(d);
    d->is_large = d->options.shuffle && train_files_are_large(&d->source);
    return TC_OK;
}

static void close_data(void *d) { train_data_close(d); }

tc_status train_data_open(tc_ctx *ctx, const train_data_options *options, const train_input *inputs, size_t n_inputs,
                          train_data **out) {
    tc_arena *arena = tc_arena_create();
    train_data *d = TC_NEW(arena, train_data);
    d->arena = arena;
    d->options = *options;
    d->options.path = tc_arena_strdup(arena, options->path);
    tc_hold(&d->held, close_data, d);
    tc_status status = open_data(ctx, d, inputs, n_inputs);
    if (status != TC_OK)
        train_data_close(d);
    *out = status == TC_OK ? d : NULL;
    return status;
}

void train_data_close(train_data *d) {
    if (!d)
        return;
    tc_let_go(&d->held);
    train_files_close(&d->source);
    for (size_t i = 0; i < d->n_columns; i++)
        free(d->columns[i].buffer);
    tc_arena_destroy(d->arena);
}

/* --- sizes ------------------------------------------------------------------------------------ */

int64_t train_data_samples(const train_data *d) { return d->samples; }

int64_t train_data_batches(const train_data *d) { return d->batches; }

static uint64_t hash_ends(const unsigned char *data, size_t bytes, uint64_t hash) {
    enum { ENDS = 4096 };
    size_t some = bytes < ENDS ? bytes : ENDS;
    hash = tc_hash_bytes(&bytes, sizeof bytes, hash);
    if (some == 0)
        return hash;
    hash = tc_hash_bytes(data, some, hash);
    return tc_hash_bytes(data + bytes - some, some, hash);
}

static uint64_t hash_part(const train_data *d, size_t k, const train_column *c, uint64_t hash) {
    const train_part *part = &c->parts[k];
    hash = hash_ends(part->data, (size_t)part->rows * (size_t)c->elements * tempo_dtype_size(c->dtype), hash);
    if (part->offsets)
        hash = hash_ends(part->offsets, (size_t)(d->first[k + 1] - d->first[k] + 1) * sizeof(int64_t), hash);
    return hash;
}

uint64_t train_data_hash(const train_data *d) {
    const train_data_options *o = &d->options;
    const int64_t order[] = {d->together, d->samples, o->shuffle, o->drop_last, o->pack, o->bucket, o->max_length};
    uint64_t hash = tc_hash_bytes(order, sizeof order, 1);
    for (size_t i = 0; i < d->n_columns; i++) {
        const train_column *c = &d->columns[i];
        const int64_t type[] = {c->kind, (int64_t)c->dtype, (int64_t)c->elements};
        hash = tc_hash_bytes(c->input.name, strlen(c->input.name), hash);
        hash = tc_hash_bytes(type, sizeof type, hash);
        for (size_t k = 0; k < d->source.n && c->kind != TRAIN_MADE; k++)
            hash = hash_part(d, k, c, hash);
    }
    return hash ? hash : 1;
}
