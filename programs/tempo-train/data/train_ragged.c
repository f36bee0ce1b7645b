/* train_ragged.c: rows of different lengths: their offsets, cutting, and padding. */
#include "train_convert.h"
#include "train_parts.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t offset_at(const unsigned char *offsets, int64_t i) {
    int64_t value;
    memcpy(&value, offsets + (size_t)i * sizeof value, sizeof value);
    return value;
}

static tc_status bad_offset(tc_ctx *ctx, const train_array *a, int64_t i, int64_t found, const char *expected) {
    return tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s': element %lld is %lld, expected %s", tc_quote(ctx, a->name),
                    (long long)i, (long long)found, expected);
}

tc_status train_check_offsets(tc_ctx *ctx, const train_array *a, int64_t tokens) {
    if (a->dtype != TEMPO_INT64 || a->rank != 1 || a->dims[0] < 1) {
        tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s' is %s, expected int64[samples + 1]", tc_quote(ctx, a->name),
                 train_type_text(ctx, a->dtype, a->rank, a->dims));
        tc_hint(ctx, "offsets are numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int64)");
        return TC_BAD_INPUT;
    }
    int64_t before = offset_at(a->data, 0);
    if (before != 0)
        return bad_offset(ctx, a, 0, before, "0");
    for (int64_t i = 1; i < a->dims[0]; i++) {
        int64_t at = offset_at(a->data, i);
        if (at < before || at > tokens)
            return bad_offset(ctx, a, i, at,
                              tc_arena_printf(ctx->arena, "one from %lld, the offset before, to %lld, all tokens",
                                              (long long)before, (long long)tokens));
        before = at;
    }
    if (before != tokens)
        return bad_offset(ctx, a, a->dims[0] - 1, before,
                          tc_arena_printf(ctx->arena, "%lld, the number of tokens", (long long)tokens));
    return TC_OK;
}

/* --- lengths ---------------------------------------------------------------------------------- */

size_t train_file_of(const train_data *d, int64_t sample) {
    size_t low = 0, high = d->source.n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (d->first[middle] <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t train_blame(tc_ctx *ctx, const train_data *d, int64_t sample) {
    size_t k = train_file_of(d, sample);
    ctx->file = tc_arena_strdup(ctx->arena, d->source.files[k].path);
    return sample - d->first[k];
}

int64_t train_row_length(const train_data *d, const train_column *column, int64_t sample, int64_t *out_first) {
    if (d->options.pack > 0) {
        *out_first = sample * d->options.pack;
        return d->options.pack;
    }
    size_t k = train_file_of(d, sample);
    const unsigned char *offsets = d->columns[column->offsets_of].parts[k].offsets;
    int64_t begin = offset_at(offsets, sample - d->first[k]), end = offset_at(offsets, sample - d->first[k] + 1);
    *out_first = begin;
    return end - begin < column->cut ? end - begin : column->cut;
}

int64_t train_padded_length(const train_data *d, const train_column *column, const uint64_t *samples, int64_t n) {
    int64_t longest = 1, first, multiple = d->options.pad_multiple;
    if (d->options.pack > 0)
        return d->options.pack;
    if (column->fixed > 0)
        return column->fixed;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = train_row_length(d, column, (int64_t)samples[i], &first);
        longest = length > longest ? length : longest;
    }
    int64_t over = longest % multiple;
    if (over > 0 && longest <= INT64_MAX - multiple)
        longest += multiple - over;
    return longest < column->cut ? longest : column->cut;
}

/* --- limits of the input ---------------------------------------------------------------------- */

/* Rows that are longer than allowed, or that have no token. */
typedef struct lengths {
    int64_t longest, longest_sample, cut, empty;
} lengths;

static lengths measure(const train_data *d, const train_column *c) {
    lengths found = {0};
    const train_part *parts = d->columns[c->offsets_of].parts;
    for (size_t k = 0; k < d->source.n; k++)
        for (int64_t i = 0; i < d->first[k + 1] - d->first[k]; i++) {
            int64_t length = offset_at(parts[k].offsets, i + 1) - offset_at(parts[k].offsets, i);
            found.cut += length > c->cut;
            found.empty += length == 0;
            if (length > found.longest) {
                found.longest = length;
                found.longest_sample = d->first[k] + i;
            }
        }
    return found;
}

/* `reports`: notes are given for the first column with these lengths. */
static tc_status check_lengths(tc_ctx *ctx, const train_data *d, const train_column *c, bool reports) {
    lengths found = measure(d, c);
    const char *name = tc_quote(ctx, c->input.name);
    int64_t taken = found.longest < c->cut ? found.longest : c->cut;
    if (c->fixed > 0 && taken > c->fixed) {
        tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s': sample %lld has %lld tokens, but the input takes %lld", name,
                 (long long)train_blame(ctx, d, found.longest_sample), (long long)taken, (long long)c->fixed);
        tc_hint(ctx, "--max-length=%lld cuts such rows", (long long)c->fixed);
        return TC_BAD_INPUT;
    }
    if (reports && found.cut > 0)
        tc_note(ctx, NULL, "array '%s': %lld of %lld rows are cut to %lld tokens, the longest has %lld", name,
                (long long)found.cut, (long long)d->first[d->source.n], (long long)c->cut, (long long)found.longest);
    if (reports && found.empty > 0)
        tc_warn(ctx, NULL, "array '%s': %lld of %lld rows have no token, and are all padding", name,
                (long long)found.empty, (long long)d->first[d->source.n]);
    return TC_OK;
}

static tc_status check_pack(tc_ctx *ctx, const train_data *d, const train_column *c) {
    if (c->fixed == 0 || c->fixed == d->options.pack)
        return TC_OK;
    return tc_error(ctx, TC_USAGE, NULL, "--pack=%lld, but input '%s' takes rows of %lld tokens",
                    (long long)d->options.pack, tc_quote(ctx, c->input.name), (long long)c->fixed);
}

/* --- padding ---------------------------------------------------------------------------------- */

/* False: the input's type does not hold it. */
static bool set_element(const train_input *in, double value, unsigned char out[8]) {
    memset(out, 0, 8);
    if (tc_dtype_is_float((tc_dtype)in->dtype)) {
        tc_element_set((tc_dtype)in->dtype, out, 0, value);
        return true;
    }
    if (!(fabs(value) <= 0x1p53) || value != floor(value))
        return false;
    int64_t whole = (int64_t)value;
    return train_convert(TEMPO_INT64, &whole, in->dtype, out, 1);
}

static train_column *find_padded(train_data *d, const char *name, size_t length) {
    for (size_t i = 0; i < d->n_columns; i++) {
        train_column *c = &d->columns[i];
        if (c->kind == TRAIN_RAGGED && strncmp(c->input.name, name, length) == 0 && c->input.name[length] == '\0')
            return c;
    }
    return NULL;
}

static tc_status take_pad(tc_ctx *ctx, train_data *d, const char *text) {
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    errno = 0;
    double value = equals ? strtod(equals + 1, &end) : 0;
    if (!equals || equals == text || end == equals + 1 || *end != '\0')
        return tc_error(ctx, TC_USAGE, NULL, "--pad=%s: expected NAME=VALUE, an input and a number",
                        tc_quote(ctx, text));
    train_column *c = find_padded(d, text, (size_t)(equals - text));
    if (!c)
        return tc_error(ctx, TC_USAGE, NULL, "--pad=%s: there is no array of this name with rows of different lengths",
                        tc_quote(ctx, text));
    c->input.padding = value;
    return TC_OK;
}

tc_status train_ragged_prepare(tc_ctx *ctx, train_data *d) {
    for (size_t i = 0; i < d->options.n_pads; i++)
        TC_TRY(take_pad(ctx, d, d->options.pads[i]));
    for (size_t i = 0; i < d->n_columns; i++) {
        train_column *c = &d->columns[i];
        if (c->kind != TRAIN_RAGGED && c->kind != TRAIN_MADE)
            continue;
        c->fixed = c->input.rank > 1 && c->input.dims[1] > 0 ? c->input.dims[1] : 0;
        c->cut = d->options.max_length > 0 ? d->options.max_length : INT64_MAX;
        if (!set_element(&c->input, 1, c->one) || !set_element(&c->input, c->input.padding, c->padding))
            return tc_error(ctx, TC_USAGE, NULL, "input '%s' is padded with %g, which no %s is",
                            tc_quote(ctx, c->input.name), c->input.padding, tempo_dtype_text(c->input.dtype));
        TC_TRY(d->options.pack > 0 ? check_pack(ctx, d, c)
                                   : check_lengths(ctx, d, c, c->kind == TRAIN_RAGGED && c->offsets_of == i));
    }
    return TC_OK;
}
