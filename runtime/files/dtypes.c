/* dtypes.c: element types of the public interface: their names and sizes. */
#include "compiler/ir/ir.h"
#include "runtime/tempo.h"

const char *tempo_dtype_text(tempo_dtype dtype) { return tc_dtype_name((tc_dtype)dtype); }

size_t tempo_dtype_size(tempo_dtype dtype) {
    static const unsigned char sizes[] = {
        [TEMPO_FLOAT] = 4,  [TEMPO_UINT8] = 1,  [TEMPO_INT8] = 1,    [TEMPO_UINT16] = 2,  [TEMPO_INT16] = 2,
        [TEMPO_INT32] = 4,  [TEMPO_INT64] = 8,  [TEMPO_BOOL] = 1,    [TEMPO_FLOAT16] = 2, [TEMPO_DOUBLE] = 8,
        [TEMPO_UINT32] = 4, [TEMPO_UINT64] = 8, [TEMPO_BFLOAT16] = 2};
    return (size_t)dtype < sizeof sizes ? sizes[dtype] : 0;
}
