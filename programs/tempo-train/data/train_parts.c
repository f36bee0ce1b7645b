/* train_parts.c: the parts of columns in each file of a source, which must be alike but for the number of samples, and
 * the total number of samples. */
#include "train_parts.h"
#include <string.h>

typedef struct taker {
    tc_ctx *ctx;
    train_data *d;
    const train_file *file; /* the current one */
    size_t index;           /* of it */
} taker;

static tc_status differs(const taker *m, const train_column *c, const char *what) {
    tc_ctx *ctx = m->ctx;
    tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s' %s '%s'", tc_quote(ctx, c->input.name), what,
             tc_quote(ctx, m->d->source.files[0].path));
    tc_hint(ctx, "all files of a folder have the same arrays, with the same types and shapes but for their first axis");
    return TC_BAD_INPUT;
}

static bool is_like_first(const train_column *c, const train_array *a) {
    int skipped = c->kind == TRAIN_CONSTANT ? 0 : 1;
    return a->dtype == c->dtype && a->rank - skipped == c->rank &&
           (c->rank == 0 || memcmp(a->dims + skipped, c->dims, (size_t)c->rank * sizeof *c->dims) == 0);
}

static tc_status take_part(taker *m, train_column *c) {
    size_t k = m->index;
    const train_array *a = train_file_array(m->file, c->input.name);
    train_part *part = &c->parts[k];
    if (!a)
        return differs(m, c, "is missing here, but is in");
    if (!is_like_first(c, a))
        return differs(m, c,
                       tc_arena_printf(m->ctx->arena, "is %s here, but not like that in",
                                       train_type_text(m->ctx, a->dtype, a->rank, a->dims)));
    *part = (train_part){.data = a->data, .rows = c->kind == TRAIN_CONSTANT ? 1 : a->dims[0]};
    if (c->kind == TRAIN_CONSTANT && k > 0 && a->bytes > 0 && memcmp(a->data, c->parts[0].data, a->bytes) != 0)
        return differs(m, c, "is the same in every batch, but has other elements here than in");
    if (k > 0)
        part->first = c->parts[k - 1].first + c->parts[k - 1].rows;
    return TC_OK;
}

static tc_status take_offsets(taker *m, train_column *c, int64_t *out_samples) {
    const train_array *offsets = train_offsets_in(m->d, m->file, c->input.name);
    train_part *part = &c->parts[m->index];
    if (!offsets)
        return differs(m, c, "has no offsets here, but in");
    TC_TRY(train_check_offsets(m->ctx, offsets, part->rows));
    part->offsets = offsets->data;
    *out_samples = offsets->dims[0] - 1;
    return TC_OK;
}

/* Of a file: samples, or tokens of packed rows, by the columns that determine it. */
static tc_status agree(const taker *m, const train_column *c, int64_t samples, const train_column **say,
                       int64_t *out_samples) {
    tc_ctx *ctx = m->ctx;
    if (*say && *out_samples != samples) {
        tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s' has %lld %s, but '%s' has %lld", tc_quote(ctx, c->input.name),
                 (long long)samples, m->d->options.pack > 0 ? "tokens" : "samples", tc_quote(ctx, (*say)->input.name),
                 (long long)*out_samples);
        tc_hint(ctx, "the first axis of each array counts samples; ragged ones have an offset for each, and one more");
        return TC_BAD_INPUT;
    }
    if (!*say) {
        *say = c;
        *out_samples = samples;
    }
    return TC_OK;
}

static tc_status count_samples(taker *m, int64_t *out_samples) {
    train_data *d = m->d;
    const train_column *say = NULL;
    for (size_t i = 0; i < d->n_columns; i++) {
        train_column *c = &d->columns[i];
        int64_t samples = c->parts[m->index].rows;
        bool own = c->kind == TRAIN_RAGGED && c->offsets_of == i;
        if (own && d->options.pack == 0)
            TC_TRY(take_offsets(m, c, &samples));
        if (own || c->kind == TRAIN_ROWS)
            TC_TRY(agree(m, c, samples, &say, out_samples));
    }
    for (size_t i = 0; i < d->n_columns; i++) {
        train_column *c = &d->columns[i];
        const train_column *from = &d->columns[c->offsets_of];
        if (c->kind != TRAIN_RAGGED || c->offsets_of == i)
            continue;
        if (c->parts[m->index].rows != from->parts[m->index].rows)
            return tc_error(m->ctx, TC_BAD_INPUT, NULL,
                            "array '%s' has %lld tokens, but '%s', whose offsets it shares, has %lld",
                            tc_quote(m->ctx, c->input.name), (long long)c->parts[m->index].rows,
                            tc_quote(m->ctx, from->input.name), (long long)from->parts[m->index].rows);
        c->parts[m->index].offsets = from->parts[m->index].offsets;
    }
    return TC_OK;
}

tc_status train_parts_take(tc_ctx *ctx, train_data *d) {
    taker m = {ctx, d, NULL, 0};
    const char *before = ctx->file;
    d->first = TC_NEW_ARRAY(d->arena, int64_t, d->source.n + 1);
    for (; m.index < d->source.n; m.index++) {
        int64_t samples = -1;
        m.file = &d->source.files[m.index];
        ctx->file = tc_arena_strdup(ctx->arena, m.file->path);
        for (size_t i = 0; i < d->n_columns; i++)
            if (d->columns[i].kind != TRAIN_MADE)
                TC_TRY(take_part(&m, &d->columns[i]));
        TC_TRY(count_samples(&m, &samples));
        if (samples < 0)
            return tc_error(ctx, TC_BAD_INPUT, NULL, "no array shows how many samples there are");
        d->first[m.index + 1] = d->first[m.index] + samples;
    }
    ctx->file = before;
    return TC_OK;
}
