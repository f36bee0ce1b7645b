/* train_columns.c: matches the arrays of the first file to inputs, as columns of one of four kinds. */
#include "train_convert.h"
#include "train_parts.h"
#include <string.h>

typedef struct maker {
    tc_ctx *ctx;
    train_data *d;
    const train_file *file;
} maker;

const char *train_type_text(tc_ctx *ctx, tempo_dtype dtype, int rank, const int64_t *dims) {
    const char *text = tc_arena_printf(ctx->arena, "%s[", tempo_dtype_text(dtype));
    for (int i = 0; i < rank; i++)
        text = dims[i] < 0 ? tc_arena_printf(ctx->arena, "%s%s?", text, i ? "," : "")
                           : tc_arena_printf(ctx->arena, "%s%s%lld", text, i ? "," : "", (long long)dims[i]);
    return tc_arena_printf(ctx->arena, "%s]", text);
}

static const char *type_of(tc_ctx *ctx, const train_array *a) {
    return train_type_text(ctx, a->dtype, a->rank, a->dims);
}

static const char *input_type(tc_ctx *ctx, const train_input *in) {
    return train_type_text(ctx, in->dtype, in->rank, in->dims);
}

const train_array *train_offsets_in(train_data *d, const train_file *file, const char *name) {
    return train_file_array(file, tc_arena_printf(d->arena, "%s.offsets", name));
}

static bool makes_mask(const char *name) { return tc_ends_with(name, "attention_mask"); }

/* --- types ------------------------------------------------------------------------------------ */

static tc_status check_dtype(const maker *m, const train_array *a, const train_input *in) {
    tc_ctx *ctx = m->ctx;
    if (train_can_convert(a->dtype, in->dtype))
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s' is %s, but the input is %s, which cannot hold all such numbers",
             tc_quote(ctx, a->name), type_of(ctx, a), input_type(ctx, in));
    if (in->dtype == TEMPO_BFLOAT16)
        tc_hint(ctx, "save it as bfloat16: torch.bfloat16 in a .safetensors file");
    else
        tc_hint(ctx, "save it as that: %s=%s.astype(numpy.%s)", tc_quote(ctx, a->name), tc_quote(ctx, a->name),
                in->dtype == TEMPO_FLOAT    ? "float32"
                : in->dtype == TEMPO_DOUBLE ? "float64"
                                            : tempo_dtype_text(in->dtype));
    return TC_BAD_INPUT;
}

/* Whether dims `from` on of the array are those of the input from `to` on. */
static bool same_dims(const train_array *a, int from, const train_input *in, int to) {
    for (int i = from; i < a->rank; i++, to++)
        if (in->dims[to] >= 0 && in->dims[to] != a->dims[i])
            return false;
    return true;
}

/* An input without open dims, and an array of exactly its shape: the same in every batch, or samples. */
static bool may_be_constant(const train_array *a, const train_input *in) {
    if (a->rank != in->rank || !same_dims(a, 0, in, 0))
        return false;
    for (int i = 0; i < in->rank; i++)
        if (in->dims[i] < 0)
            return false;
    return true;
}

static tc_status bad_shape(const maker *m, const train_array *a, const train_input *in) {
    tc_ctx *ctx = m->ctx;
    tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s' is %s, which does not fit the input, %s", tc_quote(ctx, a->name),
             type_of(ctx, a), input_type(ctx, in));
    if (a->rank + 1 == in->rank)
        tc_hint(ctx,
                "expected samples along its first axis; rows of different lengths are concatenated, "
                "with their beginnings in '%s.offsets'",
                tc_quote(ctx, a->name));
    else
        tc_hint(ctx, "expected samples along its first axis, followed by the input's axes");
    return TC_BAD_INPUT;
}

/* --- the first file decides ------------------------------------------------------------------- */

static void take_dims(maker *m, train_column *c, const train_array *a, int skipped) {
    int64_t *dims = TC_NEW_ARRAY(m->d->arena, int64_t, (size_t)a->rank + 1);
    c->rank = a->rank - skipped;
    memcpy(dims, a->dims + skipped, (size_t)c->rank * sizeof *dims);
    c->dims = dims;
    bool counted = tc_shape_count(c->rank, dims, &c->elements);
    TC_ASSERT(counted); /* as it was with the first axis */
}

static tc_status decide(maker *m, train_column *c, const train_array *a) {
    const train_input *in = &c->input;
    bool packed = m->d->options.pack > 0;
    TC_TRY(check_dtype(m, a, in));
    c->dtype = a->dtype;
    if (a->rank > 0 && a->rank + 1 == in->rank && same_dims(a, 1, in, 2)) {
        c->kind = TRAIN_RAGGED;
        take_dims(m, c, a, 1);
        return TC_OK;
    }
    if (a->rank != in->rank || !same_dims(a, 1, in, 1) || (train_offsets_in(m->d, m->file, in->name) && !packed))
        return bad_shape(m, a, in);
    c->kind = may_be_constant(a, in) ? TRAIN_CONSTANT : TRAIN_ROWS; /* settled when samples are counted */
    take_dims(m, c, a, c->kind == TRAIN_ROWS);
    return TC_OK;
}

static tc_status missing(const maker *m, const train_input *in) {
    tc_ctx *ctx = m->ctx;
    tc_error(ctx, TC_BAD_INPUT, NULL, "no array '%s' for the model's input, %s; there is %s", tc_quote(ctx, in->name),
             input_type(ctx, in),
             m->file->n_names > 0 ? tc_quote_list(ctx, m->file->names, m->file->n_names) : "no array at all");
    if (makes_mask(in->name))
        tc_hint(ctx,
                "give ones (numpy.ones_like) where samples have one length; it is made automatically only for rows of "
                "different lengths: arrays with '.offsets'");
    else
        tc_hint(ctx, "arrays are named after inputs: numpy.savez(\"data.npz\", %s=...)", tc_quote(ctx, in->name));
    return TC_BAD_INPUT;
}

static tc_status decide_all(maker *m, const train_input *inputs, size_t n) {
    train_data *d = m->d;
    d->columns = TC_NEW_ARRAY(d->arena, train_column, n + 1);
    for (size_t i = 0; i < n; i++) {
        train_column *c = &d->columns[d->n_columns];
        const train_array *a = train_file_array(m->file, inputs[i].name);
        TC_ASSERT(inputs[i].rank >= 0);
        if (!a && inputs[i].optional)
            continue;
        int64_t *dims = TC_NEW_ARRAY(d->arena, int64_t, (size_t)inputs[i].rank + 1);
        memcpy(dims, inputs[i].dims, (size_t)inputs[i].rank * sizeof *dims);
        c->input = inputs[i];
        c->input.name = tc_arena_strdup(d->arena, inputs[i].name);
        c->input.dims = dims;
        c->parts = TC_NEW_ARRAY(d->arena, train_part, d->source.n);
        c->offsets_of = d->n_columns++;
        if (a)
            TC_TRY(decide(m, c, a));
        else if (makes_mask(c->input.name) && c->input.rank == 2)
            c->kind = TRAIN_MADE, c->elements = 1;
        else
            return missing(m, &inputs[i]);
    }
    return TC_OK;
}

/* --- shared offsets --------------------------------------------------------------------------- */

static tc_status share_offsets(maker *m, train_column *c) {
    train_data *d = m->d;
    const train_array *a = train_file_array(m->file, c->input.name);
    if (train_offsets_in(m->d, m->file, c->input.name) || d->options.pack > 0)
        return TC_OK;
    for (size_t i = 0; i < d->n_columns; i++) {
        const train_column *other = &d->columns[i];
        if (other->kind != TRAIN_RAGGED || !train_offsets_in(m->d, m->file, other->input.name))
            continue;
        if (train_file_array(m->file, other->input.name)->dims[0] == a->dims[0]) {
            c->offsets_of = i;
            return TC_OK;
        }
    }
    return bad_shape(m, a, &c->input);
}

/* A mask is that of "input_ids" under the same prefix, else of the first ragged array. */
static tc_status find_masked(maker *m, train_column *c) {
    train_data *d = m->d;
    int prefix = (int)(strlen(c->input.name) - strlen("attention_mask"));
    const char *ids = tc_arena_printf(d->arena, "%.*sinput_ids", prefix, c->input.name);
    if (d->lead == d->n_columns)
        return missing(m, &c->input);
    c->offsets_of = d->columns[d->lead].offsets_of;
    for (size_t i = 0; i < d->n_columns; i++)
        if (d->columns[i].kind == TRAIN_RAGGED && strcmp(d->columns[i].input.name, ids) == 0)
            c->offsets_of = d->columns[i].offsets_of;
    return TC_OK;
}

static tc_status share_all(maker *m) {
    train_data *d = m->d;
    d->lead = d->n_columns;
    for (size_t i = d->n_columns; i-- > 0;)
        if (d->columns[i].kind == TRAIN_RAGGED) {
            TC_TRY(share_offsets(m, &d->columns[i]));
            d->lead = i;
        }
    for (size_t i = 0; i < d->n_columns; i++)
        if (d->columns[i].kind == TRAIN_MADE)
            TC_TRY(find_masked(m, &d->columns[i]));
    return TC_OK;
}

/* --- constants -------------------------------------------------------------------------------- */

/* Arrays of exactly their inputs' shapes, in the first file: samples where the others have as many, or where there are
 * no others. */
static tc_status settle_constants(maker *m) {
    train_data *d = m->d;
    int64_t samples = -1;
    for (size_t i = 0; i < d->n_columns; i++) {
        const train_column *c = &d->columns[i];
        const train_array *a = train_file_array(m->file, c->input.name);
        if (c->kind == TRAIN_ROWS)
            samples = a->dims[0];
        if (c->kind == TRAIN_RAGGED && c->offsets_of == i && d->options.pack == 0) {
            const train_array *offsets = train_offsets_in(d, m->file, c->input.name);
            samples = offsets->rank > 0 ? offsets->dims[0] - 1 : -1;
        }
    }
    for (size_t i = 0; i < d->n_columns; i++) {
        train_column *c = &d->columns[i];
        const train_array *a = train_file_array(m->file, c->input.name);
        if (c->kind != TRAIN_CONSTANT || a->rank == 0 || d->options.pack > 0 || (samples >= 0 && a->dims[0] != samples))
            continue;
        c->kind = TRAIN_ROWS;
        take_dims(m, c, a, 1);
    }
    return TC_OK;
}

static tc_status check_packed(const maker *m) {
    const train_data *d = m->d;
    for (size_t i = 0; d->options.pack > 0 && i < d->n_columns; i++) {
        if (d->columns[i].kind != TRAIN_ROWS)
            continue;
        tc_error(m->ctx, TC_BAD_INPUT, NULL, "array '%s' has a row for each sample, which packing does not keep",
                 tc_quote(m->ctx, d->columns[i].input.name));
        tc_hint(m->ctx, "--pack takes tokens, one after the other, as int64[tokens]; leave it out for other arrays");
        return TC_BAD_INPUT;
    }
    return TC_OK;
}

tc_status train_columns_decide(tc_ctx *ctx, train_data *d, const train_input *inputs, size_t n_inputs) {
    maker m = {ctx, d, &d->source.files[0]};
    const char *before = ctx->file;
    ctx->file = tc_arena_strdup(ctx->arena, m.file->path);
    TC_TRY(decide_all(&m, inputs, n_inputs));
    TC_TRY(share_all(&m));
    TC_TRY(settle_constants(&m));
    TC_TRY(check_packed(&m));
    ctx->file = before;
    return TC_OK;
}
