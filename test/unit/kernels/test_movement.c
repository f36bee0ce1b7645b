/* test_movement.c: the fast strided copy against the one that reads as the definition, over random boxes: permuted,
 * reversed, repeated and cut dims, every element size, with guard bytes around the result. Casts of 16-bit floats
 * against arithmetic on their parts. */
#include "kernels/movement/cast.h"
#include "kernels/movement/movement.h"
#include "kernels/reference/reference.h"
#include "test/unit/kernel_test.h"
#include "test/unit/random_below.h"

static uint32_t state = 3;
static int64_t below(int64_t n) { return random_below(&state, (uint32_t)n); }

#define MOST 40000
#define BAND 64

/* A permutation of a contiguous input, some dims repeated, reversed or strided. */
static void random_box(tk_strided *box, int64_t *inp_count) {
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 17, 33, 70};
    int rank = (int)below(5);
    int64_t out_dims[5], perm[5], stride = 1;
    *box = (tk_strided){.rank = rank};
    *inp_count = 1;
    for (int d = 0; d < rank; d++) {
        out_dims[d] = sizes[below(rank > 3 ? 6 : 8)];
        perm[d] = d;
    }
    for (int d = rank - 1; d > 0; d--) {
        int64_t other = below(d + 1), t = perm[d];
        perm[d] = perm[other];
        perm[other] = t;
    }
    for (int d = rank - 1; d >= 0; d--) {
        int64_t p = perm[d], step = below(4) == 0 ? 2 : 1;
        box->dims[p] = out_dims[p];
        if (below(6) == 0)
            continue; /* repeated */
        box->inp_strides[p] = *inp_count * step;
        if (below(4) == 0) {
            box->inp_offset += *inp_count * step * (out_dims[p] - 1);
            box->inp_strides[p] = -box->inp_strides[p];
        }
        *inp_count *= out_dims[p] * step;
    }
    for (int d = rank - 1; d >= 0; d--) {
        box->out_strides[d] = stride;
        stride *= out_dims[d];
    }
}

TEST(strided_copy) {
    static const size_t elements[] = {1, 2, 4, 8};
    for (int round = 0; round < 1500; round++) {
        tk_strided box;
        int64_t inp_count, out_count = 1;
        random_box(&box, &inp_count);
        for (int d = 0; d < box.rank; d++)
            out_count *= box.dims[d];
        if (inp_count > MOST || out_count > MOST)
            continue;
        size_t element = elements[below(4)], bytes = (size_t)out_count * element;
        unsigned char *inp = malloc((size_t)inp_count * element), *out = malloc(bytes + BAND),
                      *want = malloc(bytes + BAND);
        for (size_t i = 0; i < (size_t)inp_count * element; i++)
            inp[i] = (unsigned char)below(256);
        memset(out, 0xa5, bytes + BAND);
        memset(want, 0xa5, bytes + BAND);
        tk_reference_copy_strided(queue(), want, inp, &box, element);
        tk_strided_simplify(&box);
        tk_copy_strided(queue(), out, inp, &box, element);
        assert_memory_equal(out, want, bytes + BAND);
        free(inp);
        free(out);
        free(want);
    }
}

TEST(casts_out_of_range) {
    const double inp[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 127.9, -128.9, 255.9, -0.9, 4294967295.5};
    int8_t i8[10];
    uint8_t u8[10];
    int64_t i64[10];
    uint32_t u32[10];
    tk_cast(queue(), i8, inp, 10, TK_I8, TK_F64);
    tk_cast(queue(), u8, inp, 10, TK_U8, TK_F64);
    tk_cast(queue(), i64, inp, 10, TK_I64, TK_F64);
    tk_cast(queue(), u32, inp, 10, TK_U32, TK_F64);
    const int8_t want_i8[] = {0, 127, -128, 127, -128, 127, -128, 127, 0, 127};
    const uint8_t want_u8[] = {0, 255, 0, 255, 0, 127, 0, 255, 0, 255};
    assert_memory_equal(i8, want_i8, sizeof i8);
    assert_memory_equal(u8, want_u8, sizeof u8);
    assert_true(i64[1] == INT64_MAX && i64[2] == INT64_MIN && i64[3] == INT64_MAX && i64[9] == 4294967295);
    assert_true(u32[1] == UINT32_MAX && u32[9] == UINT32_MAX && u32[7] == 255);
}
