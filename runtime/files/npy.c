/* npy.c: .npy headers in and out. The header is a Python dict literal with three keys; it is parsed as such, by hand,
 * and nothing else is accepted. */
#include "npy.h"
#include <stdio.h>
#include <string.h>

#define MAGIC "\x93NUMPY"

typedef struct parser {
    tc_ctx *ctx;
    const char *name;
    const char *at, *end;
} parser;

static tc_status bad(const parser *p, const char *what) {
    return tc_error(p->ctx, TC_BAD_INPUT, NULL, "array '%s': %s", tc_quote(p->ctx, p->name), what);
}

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t'))
        p->at++;
}

static bool take(parser *p, char c) {
    skip_space(p);
    if (p->at >= p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, const char *word) {
    size_t n = strlen(word);
    skip_space(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* A quoted string without escapes, cut to `cap`. */
static bool take_string(parser *p, char *out, size_t cap) {
    skip_space(p);
    char quote = p->at < p->end ? *p->at : 0;
    size_t n = 0;
    if (quote != '\'' && quote != '"')
        return false;
    for (p->at++; p->at < p->end && *p->at != quote; p->at++)
        if (n + 1 < cap)
            out[n++] = *p->at;
    out[n] = 0;
    return take(p, quote);
}

static bool take_size(parser *p, int64_t *out) {
    skip_space(p);
    const char *begin = p->at;
    int64_t value = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (value > (INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (*p->at - '0');
    }
    *out = value;
    return p->at > begin;
}

/* --- the three keys --------------------------------------------------------------------------- */

static const struct {
    char kind[3];
    tempo_dtype dtype;
} descriptions[] = {
    {"b1", TEMPO_BOOL},  {"i1", TEMPO_INT8},   {"u1", TEMPO_UINT8},    {"i2", TEMPO_INT16},  {"u2", TEMPO_UINT16},
    {"i4", TEMPO_INT32}, {"u4", TEMPO_UINT32}, {"i8", TEMPO_INT64},    {"u8", TEMPO_UINT64}, {"f2", TEMPO_FLOAT16},
    {"f4", TEMPO_FLOAT}, {"f8", TEMPO_DOUBLE}, {"V2", TEMPO_BFLOAT16},
};

static tc_status parse_descr(parser *p, rt_npy *npy) {
    char text[16];
    if (!take_string(p, text, sizeof text))
        return bad(p, "its type is not one element type (records are not tensors)");
    for (size_t i = 0; i < TC_COUNT(descriptions); i++)
        if (strchr("<>|=", text[0]) && text[0] && strcmp(text + 1, descriptions[i].kind) == 0) {
            npy->dtype = descriptions[i].dtype;
            npy->swapped = text[0] == '>' && tempo_dtype_size(npy->dtype) > 1;
            return TC_OK;
        }
    return tc_error(p->ctx, TC_BAD_INPUT, NULL, "array '%s': numpy type '%s' is no tensor element type",
                    tc_quote(p->ctx, p->name), tc_quote(p->ctx, text));
}

static tc_status parse_shape(parser *p, rt_npy *npy) {
    if (!take(p, '('))
        return bad(p, "its shape is not a tuple");
    while (!take(p, ')')) {
        if (npy->rank == TC_MAX_RANK)
            return bad(p, "it has more dimensions than a tensor may have");
        if (!take_size(p, &npy->dims[npy->rank++]))
            return bad(p, "its shape is not a tuple of sizes");
        if (!take(p, ',') && !(p->at < p->end && *p->at == ')'))
            return bad(p, "its shape is not a tuple of sizes");
    }
    return TC_OK;
}

static tc_status parse_dict(parser *p, rt_npy *npy) {
    bool has_descr = false, has_order = false, has_shape = false;
    char key[24];
    if (!take(p, '{'))
        return bad(p, "its header is not a dict");
    while (!take(p, '}')) {
        if (!take_string(p, key, sizeof key) || !take(p, ':'))
            return bad(p, "its header is not a dict");
        if (strcmp(key, "descr") == 0 && !has_descr) {
            has_descr = true;
            TC_TRY(parse_descr(p, npy));
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            has_order = true;
            npy->fortran_order = take_word(p, "True");
            if (!npy->fortran_order && !take_word(p, "False"))
                return bad(p, "fortran_order is neither True nor False");
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            TC_TRY(parse_shape(p, npy));
        } else {
            return bad(p, "its header has an unknown or repeated key");
        }
        if (!take(p, ',') && !(p->at < p->end && *p->at == '}'))
            return bad(p, "its header is not a dict");
    }
    return has_descr && has_order && has_shape ? TC_OK : bad(p, "its header lacks descr, fortran_order or shape");
}

tc_status rt_npy_parse(tc_ctx *ctx, const char *name, const void *bytes, size_t size, rt_npy *out_npy) {
    const unsigned char *b = bytes;
    parser p = {ctx, name, NULL, NULL};
    *out_npy = (rt_npy){0};
    if (size < 10 || memcmp(b, MAGIC, 6) != 0)
        return bad(&p, "it is not in .npy format");
    if (b[6] < 1 || b[6] > 3)
        return bad(&p, "its .npy version is not 1, 2 or 3");
    size_t begin = b[6] == 1 ? 10 : 12, length = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1 && size >= 12)
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (size < begin || length > size - begin)
        return bad(&p, "its header is cut off");
    p.at = (const char *)b + begin;
    p.end = p.at + length;
    TC_TRY(parse_dict(&p, out_npy));
    out_npy->header = begin + length;
    size_t element = tempo_dtype_size(out_npy->dtype);
    if (!tc_shape_count(out_npy->rank, out_npy->dims, &out_npy->count) || out_npy->count > SIZE_MAX / element)
        return bad(&p, "its shape has too many elements");
    out_npy->bytes = (size_t)out_npy->count * element;
    if (out_npy->bytes != size - out_npy->header)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "array '%s': its shape needs %zu bytes, but %zu are there",
                        tc_quote(ctx, name), out_npy->bytes, size - out_npy->header);
    return TC_OK;
}

void rt_npy_elements(const rt_npy *npy, const void *bytes, void *out) {
    const unsigned char *from = (const unsigned char *)bytes + npy->header;
    unsigned char *to = out;
    size_t element = tempo_dtype_size(npy->dtype);
    if (!npy->swapped && !npy->fortran_order) {
        if (npy->bytes > 0)
            memcpy(to, from, npy->bytes);
        return;
    }
    for (uint64_t i = 0; i < npy->count; i++) {
        uint64_t source = i, rest = i;
        if (npy->fortran_order) {
            uint64_t scale = npy->count;
            source = 0;
            for (int d = npy->rank - 1; d >= 0; d--) {
                uint64_t size = (uint64_t)npy->dims[d];
                scale /= size;
                source += rest % size * scale;
                rest /= size;
            }
        }
        for (size_t k = 0; k < element; k++)
            to[i * element + k] = from[source * element + (npy->swapped ? element - 1 - k : k)];
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

size_t rt_npy_header(const tempo_tensor *tensor, char *out) {
    const char *kind = "V2";
    for (size_t i = 0; i < TC_COUNT(descriptions); i++)
        if (descriptions[i].dtype == tensor->dtype)
            kind = descriptions[i].kind;
    size_t n = 10;
    n += (size_t)snprintf(out + n, RT_NPY_HEADER - n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          tempo_dtype_size(tensor->dtype) == 1 ? '|' : '<', kind);
    for (int d = 0; d < tensor->rank; d++)
        n += (size_t)snprintf(out + n, RT_NPY_HEADER - n, d == 0 || tensor->rank == 1 ? "%lld%s" : " %lld%s",
                              (long long)tensor->dims[d], d + 1 < tensor->rank || tensor->rank == 1 ? "," : "");
    n += (size_t)snprintf(out + n, RT_NPY_HEADER - n, "), }");
    size_t total = (n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', total - n - 1);
    out[total - 1] = '\n';
    memcpy(out, MAGIC "\x01\x00", 8);
    out[8] = (char)((total - 10) & 0xff);
    out[9] = (char)((total - 10) >> 8);
    return total;
}
