/* table_reference.c: the table of the reference kernels, and their shared functions. Workspaces are as large as the
 * CPU's, so that plans are the same; nothing is kept in them. */
#include "reference.h"
#include <math.h>
#include <string.h>

#define KERNEL_ENTRY(name, parameters, arguments) .name = tk_reference_##name,
#define WORKSPACE_ENTRY(name, parameters, arguments) .name = tk_##name,
const tk_table tk_table_reference = {TK_KERNELS(KERNEL_ENTRY) TK_FUSED_KERNELS(KERNEL_ENTRY)
                                         TK_WORKSPACES(WORKSPACE_ENTRY)};

double *tk_reference_room(tk_queue *q, int64_t n) {
    double *numbers = calloc((size_t)n + 1, sizeof *numbers);
    if (!numbers)
        tk_fault(q, TK_NO_MEMORY);
    return numbers;
}

double *tk_reference_numbers(tk_queue *q, const void *data, int64_t n, tk_dtype dtype) {
    double *numbers = tk_reference_room(q, n);
    for (int64_t i = 0; numbers && data && i < n; i++)
        numbers[i] = tk_get(data, dtype, i);
    return numbers;
}

void tk_reference_put_int(void *out, tk_dtype dtype, int64_t i, uint64_t value) {
    switch (tk_size(dtype)) {
    case 1: ((uint8_t *)out)[i] = (uint8_t)value; break;
    case 2: ((uint16_t *)out)[i] = (uint16_t)value; break;
    case 4: ((uint32_t *)out)[i] = (uint32_t)value; break;
    default: ((uint64_t *)out)[i] = value; break;
    }
}

/* The range of an integer type of so many bits, cut towards zero; NaN is 0. */
static uint64_t whole(double value, int bits, bool is_signed) {
    double past = ldexp(1, is_signed ? bits - 1 : bits), low = is_signed ? -past : 0;
    if (isnan(value) || value <= low)
        return isnan(value) || !is_signed ? 0 : (uint64_t)1 << (bits - 1);
    if (value >= past)
        return UINT64_MAX >> (is_signed ? 65 - bits : 64 - bits);
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

void tk_reference_put(void *out, tk_dtype dtype, int64_t i, double value) {
    bool is_signed = dtype == TK_I8 || dtype == TK_I16 || dtype == TK_I32 || dtype == TK_I64;
    if (tk_is_float(dtype))
        tk_put(out, dtype, i, value);
    else
        tk_reference_put_int(out, dtype, i,
                             dtype == TK_BOOL ? value != 0 : whole(value, 8 * (int)tk_size(dtype), is_signed));
}

double tk_reference_ratio(tk_queue *q, bool drops, tk_number ratio) {
    double part = drops ? tk_number_get(ratio) : 0;
    if (part >= 0 && part < 1)
        return part;
    tk_fault(q, TK_BAD_VALUE);
    return -1;
}

/* The state of std::minstd_rand0 after `steps` numbers. */
static uint64_t minstd(uint64_t state, uint64_t steps) {
    for (uint64_t factor = 16807; steps > 0; steps /= 2, factor = factor * factor % 2147483647)
        if (steps % 2 == 1)
            state = state * factor % 2147483647;
    return state;
}

bool tk_reference_kept(const tk_draw *draw, double ratio, int64_t i) {
    uint32_t words[4];
    if (draw->minstd)
        return (float)(minstd(draw->minstd, (uint64_t)i + 1) - 1) / 2147483646.0f >= (float)ratio;
    double threshold = fmin(fmax(rint(ratio * 65536), ratio > 0 ? 1 : 0), 65535);
    tk_draw_block(draw, (uint64_t)i / 8, words);
    return (words[i % 8 / 2] >> (i % 2 == 1 ? 16 : 0) & 0xffff) >= threshold;
}

void tk_reference_places(const tk_bcast *bc, int64_t i, int64_t places[TK_BCAST_MAX]) {
    memset(places, 0, TK_BCAST_MAX * sizeof *places);
    for (int d = bc->rank - 1; d >= 0; i /= bc->dims[d--])
        for (int k = 0; k < bc->n_inp; k++)
            places[k] += i % bc->dims[d] * bc->strides[k][d];
}
