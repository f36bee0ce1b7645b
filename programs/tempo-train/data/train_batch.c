/* train_batch.c: the samples of a batch -> its arrays: rows are copied one by one, converted where types differ, and
 * padded where they are of different lengths. */
#include "train_convert.h"
#include "train_parts.h"
#include <stdlib.h>
#include <string.h>

/* A batch under construction. */
typedef struct filler {
    tc_ctx *ctx;
    train_data *d;
    const uint64_t *samples; /* [n] of this rank */
    int64_t n;
} filler;

static tc_status does_not_fit(const filler *f, const train_column *c, uint64_t sample) {
    tc_ctx *ctx = f->ctx;
    const char *name = tc_quote(ctx, c->input.name), *type = tempo_dtype_text(c->input.dtype);
    if (f->d->options.pack > 0 || c->kind == TRAIN_CONSTANT)
        return tc_error(ctx, TC_BAD_INPUT, NULL,
                        "array '%s' of '%s' has a number that %s, the input's type, does not hold", name,
                        tc_quote(ctx, f->d->options.path), type);
    int64_t at = train_blame(ctx, f->d, (int64_t)sample);
    return tc_error(ctx, TC_BAD_INPUT, NULL,
                    "array '%s': sample %lld has a number that %s, the input's type, does not hold", name,
                    (long long)at, type);
}

/* Room for `count` elements of the input's type; a buffer only grows. */
static void make_room(train_column *c, uint64_t count) {
    size_t element = tempo_dtype_size(c->input.dtype), bytes = (size_t)count * element;
    if (count > (SIZE_MAX - 64) / element)
        tc_out_of_memory(SIZE_MAX);
    if (bytes < c->capacity || (bytes == 0 && c->capacity > 0))
        return;
    free(c->buffer);
    c->capacity = 0;
    c->buffer = aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!c->buffer)
        tc_out_of_memory(bytes);
    c->capacity = (bytes / 64 + 1) * 64;
}

/* --- rows ------------------------------------------------------------------------------------- */

static const unsigned char *row_at(const train_column *c, size_t file, int64_t row) {
    return c->parts[file].data + (uint64_t)row * c->elements * tempo_dtype_size(c->dtype);
}

static tc_status fill_rows(const filler *f, train_column *c) {
    size_t bytes = (size_t)c->elements * tempo_dtype_size(c->input.dtype);
    for (int64_t i = 0; i < f->n; i++) {
        uint64_t sample = f->samples[i];
        size_t k = train_file_of(f->d, (int64_t)sample);
        const unsigned char *row = row_at(c, k, (int64_t)sample - f->d->first[k]);
        if (!train_convert(c->dtype, row, c->input.dtype, (char *)c->buffer + (size_t)i * bytes, c->elements))
            return does_not_fit(f, c, sample);
    }
    return TC_OK;
}

static tc_status fill_constant(const filler *f, train_column *c) {
    if (!c->filled && !train_convert(c->dtype, c->parts[0].data, c->input.dtype, c->buffer, c->elements))
        return does_not_fit(f, c, 0);
    c->filled = true;
    return TC_OK;
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Tokens of packed rows run through all files. */
static bool copy_packed(const train_data *d, const train_column *c, int64_t first, int64_t n, unsigned char *to) {
    size_t element = tempo_dtype_size(c->input.dtype);
    for (size_t k = 0; k < d->source.n && n > 0; k++) {
        const train_part *part = &c->parts[k];
        if (first >= part->first + part->rows)
            continue;
        int64_t here = part->first + part->rows - first < n ? part->first + part->rows - first : n;
        uint64_t count = (uint64_t)here * c->elements;
        if (!train_convert(c->dtype, row_at(c, k, first - part->first), c->input.dtype, to, count))
            return false;
        to += count * element;
        first += here;
        n -= here;
    }
    return true;
}

static void repeat(unsigned char *to, const unsigned char *element, size_t size, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        memcpy(to + i * size, element, size);
}

static bool copy_tokens(const filler *f, const train_column *c, uint64_t sample, int64_t first, int64_t length,
                        unsigned char *to) {
    if (c->kind == TRAIN_MADE) {
        repeat(to, c->one, tempo_dtype_size(c->input.dtype), (uint64_t)length);
        return true;
    }
    if (f->d->options.pack > 0)
        return copy_packed(f->d, c, first, length, to);
    size_t k = train_file_of(f->d, (int64_t)sample);
    return train_convert(c->dtype, row_at(c, k, first), c->input.dtype, to, (uint64_t)length * c->elements);
}

static tc_status fill_ragged(const filler *f, train_column *c, int64_t padded) {
    size_t size = tempo_dtype_size(c->input.dtype);
    for (int64_t i = 0; i < f->n; i++) {
        uint64_t sample = f->samples[i];
        unsigned char *to = (unsigned char *)c->buffer + (uint64_t)i * (uint64_t)padded * c->elements * size;
        int64_t first, length = train_row_length(f->d, c, (int64_t)sample, &first);
        uint64_t taken = (uint64_t)length * c->elements;
        if (!copy_tokens(f, c, sample, first, length, to))
            return does_not_fit(f, c, sample);
        repeat(to + taken * size, c->kind == TRAIN_MADE ? (const unsigned char[8]){0} : c->padding, size,
               (uint64_t)(padded - length) * c->elements);
    }
    return TC_OK;
}

/* --- counting tokens -------------------------------------------------------------------------- */

static bool is_zero(const unsigned char *at, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (at[i] != 0)
            return false;
    return true;
}

int64_t train_count_tokens(const train_data *d, const uint64_t *samples, int64_t n) {
    int64_t tokens = 0, first;
    if (d->counted == d->n_columns)
        return 0;
    const train_column *c = &d->columns[d->counted];
    bool mask = c->kind == TRAIN_ROWS && d->counted_is_mask;
    size_t size = tempo_dtype_size(c->dtype);
    if (c->kind == TRAIN_ROWS && !mask)
        return n * (int64_t)c->elements;
    for (int64_t i = 0; i < n; i++) {
        int64_t sample = (int64_t)samples[i];
        if (!mask) {
            tokens += train_row_length(d, c, sample, &first);
            continue;
        }
        size_t k = train_file_of(d, sample);
        const unsigned char *row = row_at(c, k, sample - d->first[k]);
        for (uint64_t e = 0; e < c->elements; e++)
            tokens += !is_zero(row + e * size, size);
    }
    return tokens;
}

/* --- batches ---------------------------------------------------------------------------------- */

static tc_status fill(const filler *f, train_column *c, rt_array *out) {
    int64_t *dims = c->batch_dims;
    int rank = c->kind == TRAIN_CONSTANT ? 0 : 1;
    dims[0] = f->n;
    if (c->kind == TRAIN_RAGGED || c->kind == TRAIN_MADE)
        dims[rank++] = train_padded_length(f->d, c, f->samples, f->n);
    for (int i = 0; i < c->rank; i++)
        dims[rank + i] = c->dims[i];
    rank += c->rank;
    uint64_t count;
    if (!tc_shape_count(rank, dims, &count))
        tc_out_of_memory(SIZE_MAX);
    make_room(c, count);
    *out =
        (rt_array){.name = c->input.name,
                   .tensor = {c->input.dtype, rank, dims, c->buffer, (size_t)count * tempo_dtype_size(c->input.dtype)}};
    switch (c->kind) {
    case TRAIN_ROWS: return fill_rows(f, c);
    case TRAIN_CONSTANT: return fill_constant(f, c);
    default: return fill_ragged(f, c, dims[1]);
    }
}

tc_status train_data_batch(tc_ctx *ctx, train_data *d, int64_t epoch, int64_t index, train_batch *out) {
    int64_t all, rank = d->options.rank, ranks = d->options.ranks;
    TC_ASSERT(epoch >= 0 && index >= 0 && index < d->batches);
    train_pick(d, epoch, index, &all);
    int64_t begin = train_share(all, rank, ranks), end = train_share(all, rank + 1, ranks), mine = end - begin;
    filler f = {ctx, d, d->picked + begin, mine > 0 ? mine : 1}; /* begin < all, also where there is none of its own */
    for (size_t i = 0; i < d->n_columns; i++)
        TC_TRY(fill(&f, &d->columns[i], &d->arrays[i]));
    *out = (train_batch){d->arrays, d->n_columns, mine, all, train_count_tokens(d, f.samples, mine), 0};
    out->all_tokens = ranks == 1 ? out->tokens : train_count_tokens(d, d->picked, all);
    if (d->is_large && index + 1 < d->batches)
        train_ask_ahead(d, epoch, index + 1);
    return TC_OK;
}
