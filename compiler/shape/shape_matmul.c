/* shape_matmul.c: shape functions of matrix products: MatMul, Gemm, MatMulInteger and Einsum. */
#include "shape_fns.h"
#include <ctype.h>
#include <string.h>

static tc_status product(tc_shape_ctx *sc, tc_node *node, tc_dtype dtype) {
    tc_arg a = tc_arg_of(node, 0), b = tc_arg_of(node, 1);
    if (a.rank == TC_RANK_UNKNOWN || b.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, dtype, TC_RANK_UNKNOWN, NULL);
    if (a.rank == 0 || b.rank == 0)
        return TC_FAIL(sc, node, "%s is a scalar, expected rank 1 or more", tc_operand_text(sc, node, a.rank ? 1 : 0));
    tc_dim inner, dims[TC_MAX_RANK];
    tc_dim k = b.rank == 1 ? b.dims[0] : b.dims[b.rank - 2];
    if (tc_dim_is_const(k) && tc_dim_is_const(a.dims[a.rank - 1]) && k.value != a.dims[a.rank - 1].value)
        return TC_FAIL(sc, node, "shapes %s and %s cannot be multiplied: inner sizes are %lld and %lld",
                       tc_shape_text(sc, a.rank, a.dims), tc_shape_text(sc, b.rank, b.dims),
                       (long long)a.dims[a.rank - 1].value, (long long)k.value);
    TC_TRY(tc_shape_same_dim(sc, node, "inner size", a.dims[a.rank - 1], k, &inner));
    int batch_a = a.rank > 2 ? a.rank - 2 : 0, batch_b = b.rank > 2 ? b.rank - 2 : 0, rank;
    TC_TRY(tc_broadcast(sc, node, batch_a, a.dims, batch_b, b.dims, &rank, dims));
    if (a.rank > 1)
        dims[rank++] = a.dims[a.rank - 2];
    if (b.rank > 1)
        dims[rank++] = b.dims[b.rank - 1];
    return tc_shape_set(sc, node, 0, dtype, rank, dims);
}

tc_status tc_shape_matmul(tc_shape_ctx *sc, tc_node *node) { return product(sc, node, tc_arg_of(node, 0).dtype); }
tc_status tc_shape_matmul_integer(tc_shape_ctx *sc, tc_node *node) { return product(sc, node, TC_INT32); }

tc_status tc_shape_gemm(tc_shape_ctx *sc, tc_node *node) {
    tc_arg a = tc_arg_of(node, 0), b = tc_arg_of(node, 1);
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 2));
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 2));
    int trans_a = tc_attr_int(node, "transA", 0) != 0, trans_b = tc_attr_int(node, "transB", 0) != 0;
    tc_dim unknown = tc_dim_unknown(), inner;
    tc_dim dims[2] = {a.rank == 2 ? a.dims[trans_a] : unknown, b.rank == 2 ? b.dims[1 - trans_b] : unknown};
    TC_TRY(tc_shape_same_dim(sc, node, "inner size of the product", a.rank == 2 ? a.dims[1 - trans_a] : unknown,
                             b.rank == 2 ? b.dims[trans_b] : unknown, &inner));
    TC_TRY(tc_shape_expect_fits(sc, node, 2, 2, dims));
    return tc_shape_set(sc, node, 0, a.dtype, 2, dims);
}

/* --- Einsum ----------------------------------------------------------------------------------- */

/* The sizes of letters, and of the axes that "..." stands for, counted from the last. */
typedef struct einsum {
    bool seen[128];
    int uses[128];
    tc_dim letters[128];
    int ellipsis_rank;
    tc_dim ellipsis[TC_MAX_RANK];
    bool failed_rank; /* a rank is not known */
} einsum;

/* Reads the term at *at: letters in order, `...` as '.'. False on a character that has no place there. */
static bool read_term(const char **at, const char *stops, char out[TC_MAX_RANK + 2]) {
    size_t n = 0;
    bool dots = false;
    for (; **at && !strchr(stops, **at); (*at)++) {
        if (**at == ' ')
            continue;
        if (n > TC_MAX_RANK)
            return false;
        if (strncmp(*at, "...", 3) == 0 && !dots) {
            dots = true;
            out[n++] = '.';
            *at += 2;
        } else if (isalpha((unsigned char)**at))
            out[n++] = **at;
        else
            return false;
    }
    out[n] = '\0';
    return true;
}

static tc_status einsum_operand(tc_shape_ctx *sc, tc_node *node, einsum *e, uint32_t index, const char *term) {
    tc_arg x = tc_arg_of(node, index);
    bool dots = strchr(term, '.') != NULL;
    int letters = (int)strlen(term) - dots;
    if (x.rank == TC_RANK_UNKNOWN) {
        e->failed_rank = e->failed_rank || dots;
        for (const char *c = term; *c; c++)
            if (*c != '.' && !e->seen[(int)*c])
                e->letters[(int)*c] = tc_dim_unknown(), e->seen[(int)*c] = true;
        return TC_OK;
    }
    if (x.rank < letters || (!dots && x.rank != letters))
        return TC_FAIL(sc, node, "%s has rank %d, but its term \"%s\" names %d axes", tc_operand_text(sc, node, index),
                       x.rank, term, letters);
    int axis = 0;
    for (const char *c = term; *c; c++) {
        if (*c == '.') {
            int count = x.rank - letters;
            TC_TRY(tc_broadcast(sc, node, e->ellipsis_rank, e->ellipsis, count, x.dims + axis, &e->ellipsis_rank,
                                e->ellipsis));
            axis += count;
            continue;
        }
        tc_dim *dim = &e->letters[(int)*c], size = x.dims[axis++];
        char what[] = "size of axis 'x' of the equation";
        what[strlen("size of axis '")] = *c;
        bool one = tc_dim_is_const(size) && size.value == 1,
             had_one = e->seen[(int)*c] && tc_dim_is_const(*dim) && dim->value == 1;
        if (!e->seen[(int)*c] || had_one)
            *dim = size;
        else if (!one)
            TC_TRY(tc_shape_same_dim(sc, node, what, *dim, size, dim));
        e->seen[(int)*c] = true;
    }
    return TC_OK;
}

/* Without "->": the ellipsis, then letters used once, sorted. */
static void implicit_output(const einsum *e, bool dots, char out[TC_MAX_RANK + 2]) {
    int n = 0;
    if (dots)
        out[n++] = '.';
    for (int c = 'A'; c <= 'z'; c++)
        if (e->uses[c] == 1 && n <= TC_MAX_RANK)
            out[n++] = (char)c;
    out[n] = '\0';
}

tc_status tc_shape_einsum(tc_shape_ctx *sc, tc_node *node) {
    const char *equation = tc_attr_string(node, "equation", ""), *at = equation;
    char term[TC_MAX_RANK + 2];
    einsum e = {0};
    bool dots = false;
    uint32_t index = 0;
    for (;; at++) {
        if (!read_term(&at, ",-", term) || index >= node->n_inputs)
            return TC_FAIL(sc, node, "equation \"%s\" does not fit %u operands", tc_quote(sc->ctx, equation),
                           node->n_inputs);
        for (const char *c = term; *c; c++)
            e.uses[(int)*c]++;
        dots = dots || strchr(term, '.');
        TC_TRY(einsum_operand(sc, node, &e, index++, term));
        if (*at != ',')
            break;
    }
    if (strncmp(at, "->", 2) == 0) {
        at += 2;
        if (!read_term(&at, "", term))
            return TC_FAIL(sc, node, "equation \"%s\" has no readable output term", tc_quote(sc->ctx, equation));
    } else
        implicit_output(&e, dots, term);
    if (index != node->n_inputs || *at)
        return TC_FAIL(sc, node, "equation \"%s\" does not fit %u operands", tc_quote(sc->ctx, equation),
                       node->n_inputs);
    tc_dim dims[2 * TC_MAX_RANK];
    int rank = 0;
    for (const char *c = term; *c; c++) {
        if (*c != '.' && !e.seen[(int)*c])
            return TC_FAIL(sc, node, "equation \"%s\" puts out '%c', which no operand has", tc_quote(sc->ctx, equation),
                           *c);
        for (int i = 0; *c == '.' && i < e.ellipsis_rank && rank < TC_MAX_RANK; i++)
            dims[rank++] = e.ellipsis[i];
        if (*c != '.')
            dims[rank++] = e.letters[(int)*c];
    }
    return tc_shape_set(sc, node, 0, tc_arg_of(node, 0).dtype,
                        e.failed_rank && strchr(term, '.') ? TC_RANK_UNKNOWN : rank, dims);
}
