/* train_convert.c: conversions that lose nothing, by way of int64 or double, a few hundred elements at a time. */
#include "train_convert.h"
#include "compiler/base/base.h"
#include "kernels/common/half.h"
#include <string.h>

enum { AT_ONCE = 256 };

typedef enum kind { NO_NUMBER, INTEGER, FLOATING } kind;

static kind kind_of(tempo_dtype dtype) {
    switch (dtype) {
    case TEMPO_FLOAT:
    case TEMPO_FLOAT16:
    case TEMPO_DOUBLE:
    case TEMPO_BFLOAT16: return FLOATING;
    default: return tempo_dtype_size(dtype) > 0 ? INTEGER : NO_NUMBER;
    }
}

/* Bits of a number's mantissa: an integer of fewer bits is held exactly. */
static int mantissa(tempo_dtype dtype) {
    return dtype == TEMPO_DOUBLE ? 53 : dtype == TEMPO_FLOAT ? 24 : dtype == TEMPO_FLOAT16 ? 11 : 8;
}

static bool widens(tempo_dtype from, tempo_dtype to) {
    size_t a = tempo_dtype_size(from), b = tempo_dtype_size(to);
    return b > a && b >= sizeof(float);
}

bool train_can_convert(tempo_dtype from, tempo_dtype to) {
    kind a = kind_of(from), b = kind_of(to);
    if (from == to)
        return a != NO_NUMBER;
    if (a == INTEGER && b == INTEGER)
        return true;
    if (a == INTEGER && b == FLOATING)
        return (int)(8 * tempo_dtype_size(from)) <= mantissa(to);
    return a == FLOATING && b == FLOATING && widens(from, to);
}

/* --- integers --------------------------------------------------------------------------------- */

/* A number, its C type, the least and the largest that it holds. Those of uint64 beyond int64 fit nowhere else. */
#define INTEGERS(ROW)                                                                                                  \
    ROW(TEMPO_BOOL, uint8_t, 0, 1)                                                                                     \
    ROW(TEMPO_INT8, int8_t, INT8_MIN, INT8_MAX)                                                                        \
    ROW(TEMPO_UINT8, uint8_t, 0, UINT8_MAX)                                                                            \
    ROW(TEMPO_INT16, int16_t, INT16_MIN, INT16_MAX)                                                                    \
    ROW(TEMPO_UINT16, uint16_t, 0, UINT16_MAX)                                                                         \
    ROW(TEMPO_INT32, int32_t, INT32_MIN, INT32_MAX)                                                                    \
    ROW(TEMPO_UINT32, uint32_t, 0, UINT32_MAX)                                                                         \
    ROW(TEMPO_INT64, int64_t, INT64_MIN, INT64_MAX)                                                                    \
    ROW(TEMPO_UINT64, uint64_t, 0, INT64_MAX)

#define LOAD(dtype, type, least, largest)                                                                              \
    case dtype:                                                                                                        \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type value;                                                                                                \
            memcpy(&value, (const char *)from + i * sizeof value, sizeof value);                                       \
            to[i] = (int64_t)value;                                                                                    \
        }                                                                                                              \
        return;
static void load_integers(tempo_dtype dtype, const void *from, size_t n, int64_t *to) {
    switch (dtype) {
        INTEGERS(LOAD)
    default: return;
    }
}

/* Whether int64 holds all of them. */
static bool were_loaded(tempo_dtype dtype, const int64_t *loaded, size_t n) {
    for (size_t i = 0; dtype == TEMPO_UINT64 && i < n; i++)
        if (loaded[i] < 0)
            return false;
    return true;
}

/* False: a number does not fit. */
#define STORE(dtype, type, least, largest)                                                                             \
    case dtype:                                                                                                        \
        for (size_t i = 0; i < n; i++) {                                                                               \
            if (from[i] < (int64_t)(least) || from[i] > (int64_t)(largest))                                            \
                return false;                                                                                          \
            type value = (type)from[i];                                                                                \
            memcpy((char *)to + i * sizeof value, &value, sizeof value);                                               \
        }                                                                                                              \
        return true;
static bool store_integers(tempo_dtype dtype, const int64_t *from, size_t n, void *to) {
    switch (dtype) {
        INTEGERS(STORE)
    default: return false;
    }
}

/* --- floats ----------------------------------------------------------------------------------- */

static void load_floats(tempo_dtype dtype, const void *from, size_t n, double *to) {
    for (size_t i = 0; i < n; i++) {
        float single;
        uint16_t half;
        if (dtype == TEMPO_FLOAT) {
            memcpy(&single, (const char *)from + i * sizeof single, sizeof single);
            to[i] = (double)single;
        } else {
            memcpy(&half, (const char *)from + i * sizeof half, sizeof half);
            to[i] = (double)(dtype == TEMPO_FLOAT16 ? tk_from_f16(half) : tk_from_bf16(half));
        }
    }
}

static void store_floats(tempo_dtype dtype, const double *from, size_t n, void *to) {
    for (size_t i = 0; i < n; i++) {
        float single = (float)from[i];
        uint16_t half = dtype == TEMPO_FLOAT16 ? tk_to_f16(single) : tk_to_bf16(single);
        if (dtype == TEMPO_DOUBLE)
            memcpy((char *)to + i * sizeof(double), &from[i], sizeof(double));
        else if (dtype == TEMPO_FLOAT)
            memcpy((char *)to + i * sizeof single, &single, sizeof single);
        else
            memcpy((char *)to + i * sizeof half, &half, sizeof half);
    }
}

/* --- both ------------------------------------------------------------------------------------- */

static bool convert_some(tempo_dtype from_type, const void *from, tempo_dtype to_type, void *to, size_t n) {
    int64_t integers[AT_ONCE];
    double floats[AT_ONCE];
    if (kind_of(from_type) == FLOATING) {
        load_floats(from_type, from, n, floats);
        store_floats(to_type, floats, n, to);
        return true;
    }
    load_integers(from_type, from, n, integers);
    if (kind_of(to_type) == INTEGER)
        return were_loaded(from_type, integers, n) && store_integers(to_type, integers, n, to);
    for (size_t i = 0; i < n; i++)
        floats[i] = (double)integers[i];
    store_floats(to_type, floats, n, to);
    return true;
}

bool train_convert(tempo_dtype from_type, const void *from, tempo_dtype to_type, void *to, uint64_t n) {
    size_t from_size = tempo_dtype_size(from_type), to_size = tempo_dtype_size(to_type);
    TC_ASSERT(train_can_convert(from_type, to_type));
    if (from_type == to_type) {
        if (n > 0)
            memcpy(to, from, n * from_size);
        return true;
    }
    for (uint64_t done = 0; done < n; done += AT_ONCE) {
        size_t some = n - done < AT_ONCE ? (size_t)(n - done) : AT_ONCE;
        if (!convert_some(from_type, (const char *)from + done * from_size, to_type, (char *)to + done * to_size, some))
            return false;
    }
    return true;
}
