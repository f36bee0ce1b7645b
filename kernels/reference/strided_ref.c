/* strided_ref.c: the strided copy as its definition reads. */
#include "../movement/movement.h"
#include <string.h>

void tk_copy_strided_ref(void *out, const void *inp, const tk_strided *box, size_t element) {
    int64_t count = 1;
    for (int d = 0; d < box->rank; d++)
        count *= box->dims[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, to = box->out_offset, from = box->inp_offset;
        for (int d = box->rank - 1; d >= 0; d--) {
            int64_t at = rest % box->dims[d];
            rest /= box->dims[d];
            to += at * box->out_strides[d];
            from += at * box->inp_strides[d];
        }
        memcpy((char *)out + to * (int64_t)element, (const char *)inp + from * (int64_t)element, element);
    }
}
