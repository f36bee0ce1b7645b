/* check_movement.c: families movement and cast on the emulated device. */
#include "cuda_case.h"
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const tk_dtype by_size[] = {TK_U8, TK_F16, TK_F32, TK_F64};
static const int64_t sizes[] = {1, 31, 257, 1003};

/* --- Cast --------------------------------------------------------------------------------------- */

static pair numbers_of(tk_dtype from, int64_t n) {
    static const double special[] = {0,   -0.0, INFINITY, -INFINITY, NAN,     0.5,      -0.5,    300,   -300,
                                     7e4, -7e4, 3e9,      -3e9,      1.7e308, 9.3e18,   -9.3e18, 2e19,  65519,
                                     1,   2,    1e-40,    -3e-8,     6e-8,    16777217, 33.3,    254.9, 255.5};
    double numbers[2048];
    for (int64_t i = 0; i < n; i++)
        numbers[i] = special[i % (int64_t)COUNT(special)] * (i < 27 ? 1 : (double)(i % 13) / 8);
    return pair_numbers(from, n, numbers);
}

static void cast(void) {
    for (const tk_dtype *from = all_types; *from; from++)
        for (const tk_dtype *to = all_types; *to; to++)
            for (size_t i = 0; i < COUNT(sizes); i++) {
                pair x = numbers_of(*from, sizes[i] + 1), y = pair_result(*to, sizes[i] + 1);
                for (int64_t first = 0; first < 3; first++) {
                    pair inp = pair_from(x, first > 0), out = pair_from(y, first > 1);
                    out.n = sizes[i];
                    ON_BOTH(cast, AT(out), AT(inp), sizes[i], *to, *from);
                    pair_compare(out, (bounds){0}, "Cast from type %d, %lld elements", (int)*from, (long long)sizes[i]);
                }
            }
}

/* All numbers of 16 bits to and from float. */
static void cast_halves(void) {
    enum { ALL = 65536 };
    static uint16_t bits[ALL];
    static float between[2 * ALL];
    for (int i = 0; i < ALL; i++)
        bits[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        tk_dtype dtype = k ? TK_BF16 : TK_F16, other = k ? TK_F16 : TK_BF16;
        pair x = pair_of(dtype, ALL, bits), y = pair_result(TK_F32, ALL), z = pair_result(other, ALL);
        ON_BOTH(cast, AT(y), AT(x), ALL, TK_F32, dtype);
        pair_compare(y, (bounds){0}, "all numbers as floats");
        ON_BOTH(cast, AT(z), AT(x), ALL, other, dtype);
        pair_compare(z, (bounds){0}, "all numbers as the other type of 16 bits");
        for (int i = 0; i < ALL; i++) { /* the middle between neighbours, and a little less */
            float a = (float)tk_get(bits, dtype, i), b = (float)tk_get(bits, dtype, (i + 1) % ALL);
            between[2 * i] = a + (b - a) / 2;
            between[2 * i + 1] = nextafterf(between[2 * i], 0);
        }
        pair f = pair_of(TK_F32, 2 * ALL, between), h = pair_result(dtype, 2 * ALL);
        ON_BOTH(cast, AT(h), AT(f), 2 * ALL, dtype, TK_F32);
        pair_compare(h, (bounds){0}, "floats between neighbours");
    }
}

/* --- copies ------------------------------------------------------------------------------------- */

static void copy(void) {
    pair x = pair_random(TK_U8, 1003, 0, 255), y = pair_result(TK_U8, 1003);
    ON_BOTH(copy, AT(y), AT(x), 1003);
    pair_compare(y, (bounds){0}, "copy");
    ON_BOTH(copy, AT(x), AT(x), 1003);
    pair_compare(x, (bounds){0}, "copy to itself");
}

static void fill(void) {
    static const unsigned char value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int64_t first = 0; first < 2; first++) {
                pair y = pair_from(pair_result(by_size[t], sizes[i] + first), first);
                ON_BOTH(fill, AT(y), value, y.n, tk_size(y.dtype));
                pair_compare(y, (bounds){0}, "fill of %lld elements", (long long)y.n);
            }
}

/* A box: sizes, strides of out and inp, and how many elements each has. */
typedef struct box {
    const char *what;
    tk_strided box;
    int64_t out, inp;
} box;
static const box boxes[] = {
    {"rows in packs", {2, {5, 32}, {32, 1}, {64, 1}, 0, 0, 0}, 160, 320},
    {"rows that begin nowhere", {2, {5, 32}, {32, 1}, {64, 1}, 0, 3, 0}, 160, 323},
    {"rows of no packs", {2, {5, 33}, {40, 1}, {33, 1}, 2, 0, 0}, 202, 165},
    {"rows apart in out", {2, {5, 32}, {33, 1}, {64, 1}, 0, 0, 0}, 165, 320},
    {"one row, with a rest", {1, {1003}, {1}, {1}, 0, 0, 0}, 1003, 1003},
    {"reversed", {1, {257}, {1}, {-1}, 0, 256, 0}, 257, 257},
    {"a repeated element", {2, {7, 16}, {16, 1}, {1, 0}, 0, 0, 0}, 112, 7},
    {"repeated rows", {3, {3, 4, 16}, {64, 16, 1}, {16, 0, 1}, 0, 0, 0}, 192, 48},
    {"one element, repeated in one row", {1, {1003}, {1}, {0}, 0, 0, 0}, 1003, 1},
    {"transposed", {2, {40, 70}, {70, 1}, {1, 40}, 0, 0, 0}, 2800, 2800},
    {"transposed, whole tiles", {2, {32, 64}, {64, 1}, {1, 32}, 0, 0, 0}, 2048, 2048},
    {"transposed in batches", {4, {2, 3, 17, 33}, {1683, 561, 33, 1}, {1683, 561, 1, 17}, 0, 0, 0}, 3366, 3366},
    {"transposed outside", {3, {18, 3, 20}, {60, 20, 1}, {1, 360, 18}, 0, 0, 0}, 1080, 1080},
    {"transposed, pairs", {2, {64, 128}, {128, 1}, {1, 64}, 0, 0, 0}, 8192, 8192},
    {"transposed, tiles of pairs run out", {3, {3, 70, 18}, {1260, 18, 1}, {1260, 1, 70}, 0, 0, 0}, 3780, 3780},
    {"transposed, pairs apart", {3, {2, 66, 130}, {8712, 132, 1}, {8710, 1, 66}, 2, 4, 0}, 17426, 17424},
    {"transposed, pairs begin at odd places", {2, {66, 20}, {20, 1}, {1, 66}, 0, 1, 0}, 1320, 1321},
    {"transposed, odd rows apart", {2, {66, 20}, {21, 1}, {1, 66}, 0, 0, 0}, 1386, 1320},
    {"transposed, odd columns apart", {2, {66, 20}, {20, 1}, {1, 67}, 0, 0, 0}, 1320, 1340},
    {"transposed, an odd batch", {3, {2, 18, 20}, {361, 20, 1}, {360, 1, 18}, 0, 0, 0}, 721, 720},
    {"transposed, more tiles than blocks", {3, {150, 18, 20}, {360, 20, 1}, {360, 1, 18}, 0, 0, 0}, 54000, 54000},
    {"transposed, narrow", {2, {40, 5}, {5, 1}, {1, 40}, 0, 0, 0}, 200, 200},
    {"a stride in out", {2, {6, 50}, {100, 2}, {50, 1}, 1, 0, 0}, 601, 300},
    {"nothing", {2, {0, 50}, {50, 1}, {50, 1}, 0, 0, 0}, 1, 1},
    {"four dims", {4, {2, 3, 4, 8}, {96, 32, 8, 1}, {8, 16, 48, 1}, 0, 0, 0}, 192, 192},
};

static void copy_strided(void) {
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (size_t i = 0; i < COUNT(boxes); i++) {
            tk_strided moved = boxes[i].box;
            tk_strided_simplify(&moved);
            pair x = pair_random(by_size[t], boxes[i].inp, 0, 200), y = pair_random(by_size[t], boxes[i].out, 0, 200);
            ON_BOTH(copy_strided, AT(y), AT(x), &moved, tk_size(by_size[t]));
            pair_compare(y, (bounds){0}, "%s", boxes[i].what);
        }
}

/* --- Pad, Trilu, what an Expand target must be, ReverseSequence ----------------------------------- */

static void pad(void) {
    static const int64_t out_dims[] = {3, 5, 9}, inp_dims[] = {2, 5, 6};
    static const int64_t maps[] = {-1, 0, 1, 4, 3, 2, 1, 0, -1, -1, 0, 1, 2, 3, 4, 5, -1};
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (int with = 0; with < 2; with++) {
            pair x = pair_random(by_size[t], 60, 0, 200), y = pair_result(by_size[t], 135), none = {0};
            pair value = with ? pair_random(by_size[t], 1, 3, 4) : none, table = pair_of(TK_I64, 17, maps);
            ON_BOTH(pad, AT(y), AT(x), AT(value), 3, out_dims, inp_dims, AT(table), tk_size(by_size[t]));
            pair_compare(y, (bounds){0}, "Pad");
        }
}

static void trilu(void) {
    static const int64_t diagonals[] = {0, 1, -3, 40, -40};
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (size_t i = 0; i < 2 * COUNT(diagonals); i++) {
            const pair none = {0}, k = i < 2 ? none : pair_of(TK_I64, 1, &diagonals[i / 2]);
            pair x = pair_random(by_size[t], 2 * 17 * 23, 0, 200), y = pair_result(by_size[t], x.n);
            ON_BOTH(trilu, AT(y), AT(x), 2, 17, 23, AT(k), i % 2 == 0, tk_size(by_size[t]));
            pair_compare(y, (bounds){0}, "Trilu at diagonal %lld", (long long)diagonals[i / 2]);
            ON_BOTH(trilu, AT(x), AT(x), 2, 17, 23, AT(k), i % 2 == 0, tk_size(by_size[t]));
            pair_compare(x, (bounds){0}, "Trilu in place");
        }
}

static void check_sizes(void) {
    static const int64_t good[] = {1, 5, 7}, bad[] = {1, 4, 7}, dims[] = {3, 5, 7};
    pair fits = pair_of(TK_I64, 3, good), does_not = pair_of(TK_I64, 3, bad);
    ON_BOTH(check_sizes, AT(fits), 3, dims);
    expect_fault(TK_OK, "sizes that are right");
    ON_BOTH(check_sizes, AT(does_not), 3, dims);
    expect_fault(TK_BAD_VALUE, "a size that is neither 1 nor the dim");
    ON_BOTH(check_sizes, AT(does_not), 1, dims);
    expect_fault(TK_OK, "a size that is right, before one that is not");
}

static void reverse_sequence(void) {
    static const tk_reverse_dims by_time = {1, 6, 1, 4, 3, true}, by_batch = {2, 4, 3, 6, 1, false};
    static const int64_t lens[] = {0, 1, 6, 4}, long_one[] = {0, 1, 7, 4}, negative[] = {0, 1, 6, -1};
    pair l = pair_of(TK_I64, 4, lens), too_long = pair_of(TK_I64, 4, long_one), below = pair_of(TK_I64, 4, negative);
    for (size_t t = 0; t < COUNT(by_size); t++)
        for (int k = 0; k < 2; k++) {
            const tk_reverse_dims *dims = k ? &by_batch : &by_time;
            pair x = pair_random(by_size[t], 144, 0, 200), y = pair_result(by_size[t], k ? 144 : 72);
            ON_BOTH(reverse_sequence, AT(y), AT(x), AT(l), dims, tk_size(by_size[t]));
            pair_compare(y, (bounds){0}, "ReverseSequence");
            ON_BOTH(reverse_sequence, AT(y), AT(x), AT(too_long), dims, tk_size(by_size[t]));
            expect_fault(TK_BAD_INDEX, "a length beyond the sequence");
            ON_BOTH(reverse_sequence, AT(y), AT(x), AT(below), dims, tk_size(by_size[t]));
            expect_fault(TK_BAD_INDEX, "a negative length");
        }
}

const cuda_check checks[] = {
    {"cast", cast},
    {"cast of all halves", cast_halves},
    {"copy", copy},
    {"fill", fill},
    {"boxes", copy_strided},
    {"pad", pad},
    {"trilu", trilu},
    {"check_sizes", check_sizes},
    {"reverse_sequence", reverse_sequence},
    {NULL, NULL},
};
