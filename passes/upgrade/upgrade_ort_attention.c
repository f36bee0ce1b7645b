/* upgrade_ort_attention.c: attention and rotary embeddings of ONNX Runtime, as its model builder for generation and its
 * optimizer for transformers write them. They become Attention and RotaryEmbedding of ONNX, which later passes know.
 * Meanings: docs/ContribOperators.md and the CPU kernels (contrib_ops/cpu/bert) of ONNX Runtime 1.31. */
#include "compiler/shape/shape.h"
#include "upgrade_ort.h"
#include <string.h>

/* What the node becomes. Rows are [batch, tokens, heads * size]. */
typedef struct attention {
    tc_value *q, *k, *v, *mask; /* the mask is added to scores [batch, heads, queries, keys]; NULL: there is none */
    tc_value *past_key, *past_value;
    int64_t heads, kv_heads, window; /* window: keys that a query sees, its own included; 0 and below: all */
    float scale, softcap;            /* 0: the default */
    bool causal;
} attention;

/* --- tools ------------------------------------------------------------------------------------ */

static tc_value *ints(tc_upgrade *up, tc_node *node, const char *what, int64_t first, int64_t second, int64_t count) {
    const int64_t values[] = {first, second};
    return tc_upgrade_ints(up, node, what, values, count);
}

/* int64[1]: the size of one axis. */
static tc_value *size_of(tc_node *node, tc_value *value, int64_t axis) {
    tc_value *size = TC_EMIT(node, "Shape", "size", value);
    tc_attr_set_int(size->producer, "start", axis);
    tc_attr_set_int(size->producer, "end", axis + 1);
    return size;
}

/* 0, 1, ... up to the size of one axis. */
static tc_value *counted(tc_upgrade *up, tc_node *node, tc_value *value, int64_t axis) {
    const tc_tensor *numbers[] = {tc_tensor_scalar(up->model, TC_INT64, 0), tc_tensor_scalar(up->model, TC_INT64, 1)};
    tc_value *count = TC_EMIT(node, "Squeeze", "count", size_of(node, value, axis));
    return TC_EMIT(node, "Range", "places", tc_upgrade_constant(up, node, "first", numbers[0]), count,
                   tc_upgrade_constant(up, node, "step", numbers[1]));
}

/* The size of the last axis, which must be a number. */
static tc_status width_of(tc_upgrade *up, const tc_node *node, uint32_t operand, int64_t *out_width) {
    int rank;
    TC_TRY(tc_ort_need_rank(up, node, operand, 1, &rank));
    const tc_value *value = tc_input(node, operand);
    tc_dim dim = value->type->dims[rank - 1];
    if (!tc_dim_is_const(dim))
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "the last dim of operand %u ('%s') is not known", operand,
                        tc_quote(up->ctx, value->name));
    *out_width = dim.value;
    return TC_OK;
}

/* Three parts of the axis, of these sizes; two where the last size is 0. */
static void split(tc_upgrade *up, tc_node *node, tc_value *whole, int64_t axis, const int64_t *sizes,
                  tc_value **out_parts) {
    uint32_t n = sizes[2] > 0 ? 3 : 2;
    tc_value *operands[] = {whole, tc_upgrade_ints(up, node, "sizes", sizes, n)};
    out_parts[0] = tc_upgrade_emit(node, "Split", "part", operands, 2);
    tc_node *made = out_parts[0]->producer;
    tc_attr_set_int(made, "axis", axis);
    tc_node_resize_outputs(made, n);
    for (uint32_t i = 1; i < n; i++)
        out_parts[i] = tc_node_add_output(made, i, out_parts[0]->name, NULL);
}

/* [batch, tokens, heads, size] or with an axis of one part after the heads: rows. */
static tc_value *rows_of(tc_upgrade *up, tc_node *node, tc_value *value) {
    static const int64_t shape[] = {0, 0, -1};
    return TC_EMIT(node, "Reshape", "rows", value, tc_upgrade_ints(up, node, "shape", shape, 3));
}

typedef struct refused {
    const char *name; /* an operand's name, or an attribute's */
    uint32_t operand;
} refused;

/* Refuses a node with one of these operands. */
static tc_status refuse_operands(tc_upgrade *up, const tc_node *node, const refused *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!tc_input(node, list[i].operand))
            continue;
        tc_error(up->ctx, TC_UNSUPPORTED, node, "its operand %s is not supported", list[i].name);
        if (strncmp(list[i].name, "past", 4) == 0)
            tc_hint(up->ctx, "--recipe=evaluate leaves the past of a decoder out, and so do recipes that train");
        return TC_UNSUPPORTED;
    }
    return TC_OK;
}

/* Refuses an attribute that is set. */
static tc_status refuse_attrs(tc_upgrade *up, const tc_node *node, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tc_attr_int(node, names[i], 0) != 0)
            return tc_error(up->ctx, TC_UNSUPPORTED, node, "its attribute %s is not supported", names[i]);
    return TC_OK;
}

static void read_attrs(const tc_node *node, attention *a) {
    a->heads = a->kv_heads = tc_attr_int(node, "num_heads", 0);
    a->scale = tc_attr_float(node, "scale", 0);
    a->softcap = tc_attr_float(node, "softcap", 0);
    a->causal = tc_attr_int(node, "unidirectional", 0) != 0;
}

static tc_status become_attention(tc_upgrade *up, tc_node *node, const attention *a) {
    TC_TRY(tc_ort_need_results(up, node, 3));
    if (a->heads < 1 || a->kv_heads < 1)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "%lld and %lld heads, expected at least 1", (long long)a->heads,
                        (long long)a->kv_heads);
    while (node->n_attrs > 0)
        tc_attr_remove(node, node->attrs[0].name);
    tc_attr_set_int(node, "q_num_heads", a->heads);
    tc_attr_set_int(node, "kv_num_heads", a->kv_heads);
    if (a->causal)
        tc_attr_set_int(node, "is_causal", 1);
    if (a->window > 0)
        tc_attr_set_int(node, "left_window_size", a->window - 1);
    if (a->scale != 0)
        tc_attr_set_float(node, "scale", a->scale);
    if (a->softcap != 0)
        tc_attr_set_float(node, "softcap", a->softcap);
    uint32_t used = node->n_outputs < 3 ? node->n_outputs : 3;
    while (used > 1 && (!node->outputs[used - 1] || !tc_value_is_used(node->outputs[used - 1])))
        used--;
    tc_node_resize_outputs(node, used);
    tc_value *operands[] = {a->q, a->k, a->v, a->mask, a->past_key, a->past_value};
    uint32_t n = TC_COUNT(operands);
    while (!operands[n - 1])
        n--;
    return tc_ort_become(node, TC_TEMPO_DOMAIN, "Attention", operands, n);
}

/* --- masks ------------------------------------------------------------------------------------ */

/* Keys that count, as bools: of lengths [batch], or of integers above 0. */
static tc_status kept_keys(tc_upgrade *up, tc_node *node, uint32_t operand, tc_value *keys, int rank,
                           tc_value **out_kept) {
    tc_value *mask = tc_input(node, operand);
    const tc_value *x = tc_input(node, 0);
    if (rank > 1) {
        *out_kept = TC_EMIT(node, "Greater", "kept", mask, tc_ort_number(up, node, "zero", 0, mask));
        return TC_OK;
    }
    if (tc_value_rank(x) < 1 || !tc_dim_equal(mask->type->dims[0], x->type->dims[0]))
        return tc_error(
            up->ctx, TC_UNSUPPORTED, node,
            "operand %u ('%s') is %s, expected [batch], lengths of sequences padded at their end, or a mask "
            "of two or three dims",
            operand, tc_quote(up->ctx, mask->name), tc_type_text(up->ctx->arena, mask->type));
    tc_value *lengths = TC_EMIT(node, "Cast", "lengths", mask);
    tc_attr_set_int(lengths->producer, "to", TC_INT64);
    lengths = TC_EMIT(node, "Unsqueeze", "lengths", lengths, ints(up, node, "last", 1, 0, 1));
    *out_kept = TC_EMIT(node, "Less", "kept", counted(up, node, keys, 1), lengths);
    return TC_OK;
}

/* What is added to scores: mask_filter_value where the mask says so, and the bias. The mask is [batch], [batch, keys]
 * or [batch, queries, keys]. */
static tc_status read_mask(tc_upgrade *up, tc_node *node, uint32_t mask, uint32_t bias, attention *a) {
    int rank;
    tc_value *kept = NULL;
    a->mask = tc_input(node, bias);
    if (!tc_input(node, mask))
        return TC_OK;
    TC_TRY(tc_ort_need_rank(up, node, mask, 1, &rank));
    if (rank > 3)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "its mask '%s' has rank %d, expected 1, 2 or 3",
                        tc_quote(up->ctx, tc_input(node, mask)->name), rank);
    TC_TRY(kept_keys(up, node, mask, a->k, rank, &kept));
    kept = TC_EMIT(node, "Unsqueeze", "kept", kept, ints(up, node, "axes", 1, 2, rank == 3 ? 1 : 2));
    double fill = (double)tc_attr_float(node, "mask_filter_value", -10000.0f);
    tc_value *masked = TC_EMIT(node, "Where", "mask", kept, tc_ort_number(up, node, "zero", 0, a->q),
                               tc_ort_number(up, node, "fill", fill, a->q));
    a->mask = a->mask ? TC_EMIT(node, "Add", "masks", a->mask, masked) : masked;
    return TC_OK;
}

/* --- rotary embeddings ------------------------------------------------------------------------ */

typedef struct rotary {
    tc_value *cos, *sin, *positions; /* positions NULL: the tables are rows already */
    int64_t dim;                     /* elements of a head that are turned */
    bool interleaved;
} rotary;

/* Rows of the tables for positions 0, 1, ... or from `offset` on. */
static void take_rows(tc_upgrade *up, tc_node *node, tc_value *offset, tc_value *x, int64_t tokens, rotary *r) {
    tc_value **tables[] = {&r->cos, &r->sin};
    for (size_t i = 0; i < TC_COUNT(tables); i++) {
        tc_value *rows;
        if (offset)
            rows = TC_EMIT(node, "Gather", "rows", *tables[i],
                           TC_EMIT(node, "Add", "positions", counted(up, node, x, tokens), offset));
        else
            rows = TC_EMIT(node, "Slice", "rows", *tables[i], ints(up, node, "from", 0, 0, 1), size_of(node, x, tokens),
                           ints(up, node, "axis", 0, 0, 1));
        *tables[i] = TC_EMIT(node, "Unsqueeze", "table", rows, ints(up, node, "batch", 0, 0, 1));
    }
}

static tc_status read_tables(tc_upgrade *up, tc_node *node, uint32_t cos, rotary *r) {
    r->cos = tc_input(node, cos);
    r->sin = tc_input(node, cos + 1);
    if (!r->cos || !r->sin)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "its tables of cosines and sines are absent");
    TC_TRY(width_of(up, node, cos, &r->dim));
    r->dim *= 2;
    return TC_OK;
}

static void set_rotary(tc_node *node, const rotary *r, int64_t heads, int64_t size) {
    tc_attr_set_int(node, "num_heads", heads);
    tc_attr_set_int(node, "interleaved", r->interleaved);
    if (r->dim != size)
        tc_attr_set_int(node, "rotary_embedding_dim", r->dim);
}

static tc_value *turned(tc_node *node, tc_value *x, const rotary *r, int64_t heads, int64_t size) {
    tc_value *operands[] = {x, r->cos, r->sin, r->positions};
    tc_value *y = tc_upgrade_emit(node, "RotaryEmbedding", "turned", operands, r->positions ? 4 : 3);
    tc_node_set_op(y->producer, TC_TEMPO_DOMAIN, "RotaryEmbedding");
    set_rotary(y->producer, r, heads, size);
    return y;
}

/* (x, positions [1] or [batch, tokens], cosines, sines) */
tc_status tc_ort_rotary(tc_upgrade *up, tc_node *node) {
    static const char *const attrs[] = {"is_packed_batching"};
    int rank, position_rank;
    rotary r = {.interleaved = tc_attr_int(node, "interleaved", 0) != 0};
    int64_t width, heads = tc_attr_int(node, "num_heads", 0);
    TC_TRY(refuse_attrs(up, node, attrs, TC_COUNT(attrs)));
    if (tc_attr_float(node, "scale", 1) != 1)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "its attribute scale is not supported");
    TC_TRY(tc_ort_need_rank(up, node, 0, 3, &rank));
    TC_TRY(tc_ort_need_rank(up, node, 1, 1, &position_rank));
    TC_TRY(width_of(up, node, 0, &width));
    TC_TRY(read_tables(up, node, 2, &r));
    if (rank == 3 && heads < 1 && r.dim > 0)
        heads = width / r.dim;
    tc_value *positions = tc_input(node, 1), *x = tc_input(node, 0);
    if (position_rank == 1)
        take_rows(up, node, positions, x, rank == 3 ? 1 : 2, &r);
    else
        r.positions = positions;
    while (node->n_attrs > 0)
        tc_attr_remove(node, node->attrs[0].name);
    set_rotary(node, &r, heads, rank == 3 && heads > 0 ? width / heads : width);
    tc_value *operands[] = {x, r.cos, r.sin, r.positions};
    return tc_ort_become(node, TC_TEMPO_DOMAIN, "RotaryEmbedding", operands, r.positions ? 4 : 3);
}

/* --- the ops ---------------------------------------------------------------------------------- */

/* (query, key?, value?, past_key?, past_value?, lengths - 1, total, cosines?, sines?, positions?, bias?, ...): without
 * a past, query and keys have the same tokens, and a query sees those up to its own. Keys after the lengths belong to
 * rows padded at their end, which no earlier query sees: the lengths are not needed. */
tc_status tc_ort_group_query_attention(tc_upgrade *up, tc_node *node) {
    static const refused operands[] = {{"past_key", 3}, {"past_value", 4},     {"head_sink", 11},    {"k_scale", 12},
                                       {"v_scale", 13}, {"q_norm_weight", 14}, {"k_norm_weight", 15}};
    static const char *const attrs[] = {"smooth_softmax", "qk_output", "sliding_window_cache", "kv_cache_bit_width"};
    attention a = {.q = tc_input(node, 0), .k = tc_input(node, 1), .v = tc_input(node, 2), .mask = tc_input(node, 10)};
    bool turns = tc_attr_int(node, "do_rotary", 0) != 0;
    int64_t width = 0;
    TC_TRY(refuse_operands(up, node, operands, TC_COUNT(operands)));
    TC_TRY(refuse_attrs(up, node, attrs, TC_COUNT(attrs)));
    if (turns || !a.k)
        TC_TRY(width_of(up, node, 0, &width));
    read_attrs(node, &a);
    a.kv_heads = tc_attr_int(node, "kv_num_heads", 0);
    a.causal = tc_attr_int(node, "causal", 1) != 0;
    a.window = tc_attr_int(node, "local_window_size", -1);
    int64_t all = a.heads + (a.k ? 0 : 2 * a.kv_heads), size = all > 0 ? width / all : 0;
    if (!a.k) {
        const int64_t sizes[] = {a.heads * size, a.kv_heads * size, a.kv_heads * size};
        tc_value *parts[3];
        split(up, node, a.q, -1, sizes, parts);
        a.q = parts[0], a.k = parts[1], a.v = parts[2];
    }
    if (turns) {
        rotary r = {.positions = tc_input(node, 9), .interleaved = tc_attr_int(node, "rotary_interleaved", 0) != 0};
        TC_TRY(read_tables(up, node, 7, &r));
        if (!r.positions)
            take_rows(up, node, NULL, tc_input(node, 0), 1, &r);
        a.q = turned(node, a.q, &r, a.heads, size);
        a.k = turned(node, a.k, &r, a.kv_heads, size);
    }
    return become_attention(up, node, &a);
}

/* [batch, tokens, heads, 3 or 2, size]: rows of each part. */
static void unpack(tc_upgrade *up, tc_node *node, tc_value *packed, int64_t n, tc_value **out_rows) {
    const int64_t sizes[] = {1, 1, n - 2};
    split(up, node, packed, 3, sizes, out_rows);
    for (int64_t i = 0; i < n; i++)
        out_rows[i] = rows_of(up, node, out_rows[i]);
}

/* Rows of an operand that may be [batch, heads, tokens, size]. */
static tc_value *as_rows(tc_upgrade *up, tc_node *node, uint32_t operand) {
    static const int64_t perm[] = {0, 2, 1, 3};
    tc_value *value = tc_input(node, operand);
    if (tc_value_rank(value) != 4)
        return value;
    value = TC_EMIT(node, "Transpose", "tokens", value);
    tc_attr_set_ints(value->producer, "perm", perm, 4);
    return rows_of(up, node, value);
}

static tc_status read_rows(tc_upgrade *up, tc_node *node, attention *a) {
    tc_value *parts[3] = {tc_input(node, 0), NULL, NULL};
    int rank;
    TC_TRY(tc_ort_need_rank(up, node, 0, 3, &rank));
    if (!tc_input(node, 1) && rank == 5)
        unpack(up, node, parts[0], 3, parts);
    else if (!tc_input(node, 2) && tc_value_rank(tc_input(node, 1)) == 5)
        unpack(up, node, tc_input(node, 1), 2, parts + 1);
    else
        parts[1] = as_rows(up, node, 1), parts[2] = as_rows(up, node, 2);
    if (!parts[1] || !parts[2])
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "its keys or values are absent, or packed in an unknown way");
    a->q = parts[0], a->k = parts[1], a->v = parts[2];
    return TC_OK;
}

/* (query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?, ...) */
tc_status tc_ort_multi_head_attention(tc_upgrade *up, tc_node *node) {
    static const refused operands[] = {{"past_sequence_length", 8}, {"cache_indirection", 9}};
    attention a = {.past_key = tc_input(node, 6), .past_value = tc_input(node, 7)};
    tc_value **rows[] = {&a.q, &a.k, &a.v}, *bias = tc_input(node, 3);
    TC_TRY(refuse_operands(up, node, operands, TC_COUNT(operands)));
    TC_TRY(read_rows(up, node, &a));
    read_attrs(node, &a);
    if (bias) {
        int64_t width = 0, size = 0;
        TC_TRY(width_of(up, node, 0, &width));
        TC_TRY(width_of(up, node, 3, &size));
        if (tc_value_rank(tc_input(node, 0)) == 5)
            width = size / 3;
        const int64_t sizes[] = {width, width, size - 2 * width};
        tc_value *parts[3];
        split(up, node, bias, 0, sizes, parts);
        for (size_t i = 0; i < 3; i++)
            *rows[i] = TC_EMIT(node, "Add", "biased", *rows[i], parts[i]);
    }
    TC_TRY(read_mask(up, node, 4, 5, &a));
    return become_attention(up, node, &a);
}

/* (x, weights, bias?, mask?, past?, attention_bias?, ...): the projections of query, key and value are one. */
tc_status tc_ort_attention(tc_upgrade *up, tc_node *node) {
    static const refused operands[] = {{"past", 4}, {"past_sequence_length", 6}};
    static const char *const attrs[] = {"do_rotary", "past_present_share_buffer"};
    attention a = {0};
    int64_t width;
    size_t n;
    const int64_t *given = tc_attr_ints(node, "qkv_hidden_sizes", &n);
    TC_TRY(refuse_operands(up, node, operands, TC_COUNT(operands)));
    TC_TRY(refuse_attrs(up, node, attrs, TC_COUNT(attrs)));
    TC_TRY(tc_ort_need_results(up, node, 1));
    TC_TRY(width_of(up, node, 1, &width));
    read_attrs(node, &a);
    const int64_t thirds[] = {width / 3, width / 3, width / 3};
    tc_value *product = TC_EMIT(node, "MatMul", "product", tc_input(node, 0), tc_input(node, 1)), *parts[3];
    if (tc_input(node, 2))
        product = TC_EMIT(node, "Add", "biased", product, tc_input(node, 2));
    split(up, node, product, -1, n == 3 ? given : thirds, parts);
    a.q = parts[0], a.k = parts[1], a.v = parts[2];
    TC_TRY(read_mask(up, node, 3, 5, &a));
    return become_attention(up, node, &a);
}
