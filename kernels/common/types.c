/* types.c: sizes of element types, and elements as numbers for kernels where speed does not matter. */
#include "types.h"
#include "half.h"

size_t tk_size(tk_dtype dtype) {
    switch (dtype) {
    case TK_U8:
    case TK_I8:
    case TK_BOOL: return 1;
    case TK_U16:
    case TK_I16:
    case TK_F16:
    case TK_BF16: return 2;
    case TK_F32:
    case TK_U32:
    case TK_I32: return 4;
    case TK_F64:
    case TK_U64:
    case TK_I64: return 8;
    }
    return 0;
}

double tk_get(const void *data, tk_dtype dtype, int64_t i) {
    switch (dtype) {
    case TK_F32: return (double)((const float *)data)[i];
    case TK_F64: return ((const double *)data)[i];
    case TK_F16: return (double)tk_from_f16(((const uint16_t *)data)[i]);
    case TK_BF16: return (double)tk_from_bf16(((const uint16_t *)data)[i]);
    case TK_BOOL:
    case TK_U8: return ((const uint8_t *)data)[i];
    case TK_I8: return ((const int8_t *)data)[i];
    case TK_U16: return ((const uint16_t *)data)[i];
    case TK_I16: return ((const int16_t *)data)[i];
    case TK_U32: return ((const uint32_t *)data)[i];
    case TK_I32: return ((const int32_t *)data)[i];
    case TK_U64: return (double)((const uint64_t *)data)[i];
    case TK_I64: return (double)((const int64_t *)data)[i];
    }
    return 0;
}

void tk_put(void *data, tk_dtype dtype, int64_t i, double value) {
    switch ((int)dtype) {
    case TK_F32: ((float *)data)[i] = (float)value; break;
    case TK_F64: ((double *)data)[i] = value; break;
    case TK_F16: ((uint16_t *)data)[i] = tk_f16_of_double(value); break;
    case TK_BF16: ((uint16_t *)data)[i] = tk_bf16_of_double(value); break;
    }
}

int64_t tk_get_int(const void *data, tk_dtype dtype, int64_t i) {
    switch (dtype) {
    case TK_I64: return ((const int64_t *)data)[i];
    case TK_U64: return (int64_t)((const uint64_t *)data)[i];
    default: return (int64_t)tk_get(data, dtype, i);
    }
}
