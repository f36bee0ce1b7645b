/* strided_cpu.c: the strided copy, fast: long runs by memcpy; repeated elements by fill; where one side is transposed,
 * two dims at a time in square blocks, so that each cache line is used whole on both sides. The outer dims are split
 * among threads. */
#include "../common/parallel.h"
#include "../common/vector.h"
#include "movement.h"
#include <string.h>

/* Dims are given out sorted by the output's strides: the result is then written in order. */
static void sort_dims(tk_strided *box) {
    for (int i = 1; i < box->rank; i++)
        for (int j = i; j > 0; j--) {
            int64_t a = box->out_strides[j - 1], b = box->out_strides[j];
            if ((a < 0 ? -a : a) >= (b < 0 ? -b : b))
                break;
            int64_t t = box->dims[j];
            box->dims[j] = box->dims[j - 1];
            box->dims[j - 1] = t;
            box->out_strides[j] = a;
            box->out_strides[j - 1] = b;
            t = box->inp_strides[j];
            box->inp_strides[j] = box->inp_strides[j - 1];
            box->inp_strides[j - 1] = t;
        }
}

void tk_strided_simplify(tk_strided *box) {
    sort_dims(box);
    int rank = 0;
    box->count = 1;
    for (int d = 0; d < box->rank; d++) {
        int64_t n = box->dims[d];
        box->count *= n;
        if (n == 1)
            continue;
        if (rank > 0 && box->out_strides[rank - 1] == n * box->out_strides[d] &&
            box->inp_strides[rank - 1] == n * box->inp_strides[d]) {
            box->dims[rank - 1] *= n;
            box->out_strides[rank - 1] = box->out_strides[d];
            box->inp_strides[rank - 1] = box->inp_strides[d];
            continue;
        }
        box->dims[rank] = n;
        box->out_strides[rank] = box->out_strides[d];
        box->inp_strides[rank] = box->inp_strides[d];
        rank++;
    }
    if (rank == 0) {
        box->dims[0] = 1;
        box->out_strides[0] = box->inp_strides[0] = 1;
        rank = 1;
    }
    box->rank = rank;
}

/* The two dims that the innermost loops walk: the last, and for a transposed copy the dense one of the input. */
typedef struct tile {
    int64_t rows, cols; /* cols: the last dim of the box */
    int64_t out_row, inp_row, out_col, inp_col;
} tile;

typedef void (*tile_fn)(char *out, const char *inp, const tile *t);

#define BLOCK 16

/* Blocks walk along the rows first: the input's lines, and its pages, are used whole before the next columns. */
#define DEFINE_TILE(type, bits)                                                                                        \
    static void tile_##bits(char *out_bytes, const char *inp_bytes, const tile *t) {                                   \
        type *out = (type *)(void *)out_bytes;                                                                         \
        const type *inp = (const type *)(const void *)inp_bytes;                                                       \
        for (int64_t c0 = 0; c0 < t->cols; c0 += BLOCK)                                                                \
            for (int64_t r0 = 0; r0 < t->rows; r0 += BLOCK) {                                                          \
                int64_t r1 = r0 + BLOCK < t->rows ? r0 + BLOCK : t->rows;                                              \
                int64_t c1 = c0 + BLOCK < t->cols ? c0 + BLOCK : t->cols;                                              \
                for (int64_t r = r0; r < r1; r++)                                                                      \
                    for (int64_t c = c0; c < c1; c++)                                                                  \
                        out[r * t->out_row + c * t->out_col] = inp[r * t->inp_row + c * t->inp_col];                   \
            }                                                                                                          \
    }
#define DEFINE_ROW(type, bits)                                                                                         \
    static void row_##bits(char *out_bytes, const char *inp_bytes, const tile *t) {                                    \
        type *out = (type *)(void *)out_bytes;                                                                         \
        const type *inp = (const type *)(const void *)inp_bytes;                                                       \
        if (t->out_col == 1 && t->inp_col == 1)                                                                        \
            memcpy(out, inp, (size_t)t->cols * sizeof *out);                                                           \
        else if (t->out_col == 1 && t->inp_col == 0)                                                                   \
            for (int64_t c = 0; c < t->cols; c++)                                                                      \
                out[c] = inp[0];                                                                                       \
        else                                                                                                           \
            for (int64_t c = 0; c < t->cols; c++)                                                                      \
                out[c * t->out_col] = inp[c * t->inp_col];                                                             \
    }
DEFINE_TILE(uint8_t, 8)
DEFINE_TILE(uint16_t, 16)
DEFINE_TILE(uint32_t, plain_32)
DEFINE_TILE(uint64_t, 64)
DEFINE_ROW(uint8_t, 8)
DEFINE_ROW(uint16_t, 16)
DEFINE_ROW(uint32_t, 32)
DEFINE_ROW(uint64_t, 64)

/* Square blocks of four-byte elements are transposed in registers: halves, quarters, eighths, then single elements off
 * the diagonal change places. A block's row is a cache line on both sides. */
#define SQUARE 16
typedef uint32_t square_row __attribute__((vector_size(SQUARE * sizeof(uint32_t))));

#define EXCHANGE(v, width, low, high)                                                                                  \
    for (int i = 0; i < SQUARE; i++)                                                                                   \
        if ((i & (width)) == 0) {                                                                                      \
            square_row first = __builtin_shufflevector((v)[i], (v)[i + (width)], low);                                 \
            (v)[i + (width)] = __builtin_shufflevector((v)[i], (v)[i + (width)], high);                                \
            (v)[i] = first;                                                                                            \
        }
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

/* out[r * out_row + c] = inp[r + c * inp_col], rows and cols multiples of SQUARE. */
TK_VECTOR static void transpose_32(uint32_t *out, int64_t out_row, const uint32_t *inp, int64_t inp_col, int64_t rows,
                                   int64_t cols) {
    for (int64_t c0 = 0; c0 < cols; c0 += SQUARE)
        for (int64_t r0 = 0; r0 < rows; r0 += SQUARE) {
            square_row v[SQUARE];
            for (int c = 0; c < SQUARE; c++)
                memcpy(&v[c], inp + r0 + (c0 + c) * inp_col, sizeof v[c]);
            EXCHANGE(v, 8, LOW_8, HIGH_8)
            EXCHANGE(v, 4, LOW_4, HIGH_4)
            EXCHANGE(v, 2, LOW_2, HIGH_2)
            EXCHANGE(v, 1, LOW_1, HIGH_1)
            for (int r = 0; r < SQUARE; r++)
                memcpy(out + (r0 + r) * out_row + c0, &v[r], sizeof v[r]);
        }
}

static void tile_32(char *out_bytes, const char *inp_bytes, const tile *t) {
    uint32_t *out = (uint32_t *)(void *)out_bytes;
    const uint32_t *inp = (const uint32_t *)(const void *)inp_bytes;
    int64_t rows = t->rows / SQUARE * SQUARE, cols = t->cols / SQUARE * SQUARE;
    if (t->out_col != 1 || t->inp_row != 1 || rows == 0 || cols == 0) {
        tile_plain_32(out_bytes, inp_bytes, t);
        return;
    }
    transpose_32(out, t->out_row, inp, t->inp_col, rows, cols);
    tile below = *t, beside = *t;
    below.rows = t->rows - rows;
    beside.rows = rows;
    beside.cols = t->cols - cols;
    tile_plain_32((char *)(out + rows * t->out_row), (const char *)(inp + rows), &below);
    tile_plain_32((char *)(out + cols), (const char *)(inp + cols * t->inp_col), &beside);
}

typedef struct copy {
    char *out;
    const char *inp;
    const tk_strided *box;
    int64_t element;
    int inner;      /* dim walked together with the last one, or -1 */
    int64_t chunks; /* that the inner dim is cut into, for threads */
    tile t;
    tile_fn run;
} copy;

#define CHUNK (8 * BLOCK)

static void copy_range(void *ctx, tk_share share) {
    const copy *c = ctx;
    const tk_strided *box = c->box;
    for (int64_t i = share.begin; i < share.end; i++) {
        int64_t rest = i / c->chunks, row = i % c->chunks * CHUNK;
        int64_t to = box->out_offset + row * c->t.out_row, from = box->inp_offset + row * c->t.inp_row;
        tile t = c->t;
        if (c->chunks > 1)
            t.rows = t.rows - row < CHUNK ? t.rows - row : CHUNK;
        for (int d = box->rank - 2; d >= 0; d--) {
            if (d == c->inner)
                continue;
            int64_t at = rest % box->dims[d];
            rest /= box->dims[d];
            to += at * box->out_strides[d];
            from += at * box->inp_strides[d];
        }
        c->run(c->out + to * c->element, c->inp + from * c->element, &t);
    }
}

/* A copy is transposed where a dim other than the last one has stride 1 in the input. */
static int transposed_dim(const tk_strided *box) {
    if (box->inp_strides[box->rank - 1] == 1 || box->inp_strides[box->rank - 1] == 0)
        return -1;
    for (int d = box->rank - 2; d >= 0; d--)
        if (box->inp_strides[d] == 1)
            return d;
    return -1;
}

void tk_copy_strided(tk_queue *q, void *out, const void *inp, const tk_strided *box, size_t element) {
    static const tile_fn tiles[] = {[1] = tile_8, [2] = tile_16, [4] = tile_32, [8] = tile_64};
    static const tile_fn rows[] = {[1] = row_8, [2] = row_16, [4] = row_32, [8] = row_64};
    if (box->count == 0)
        return;
    int last = box->rank - 1, inner = transposed_dim(box);
    tile t = {1, box->dims[last], 0, 0, box->out_strides[last], box->inp_strides[last]};
    if (inner >= 0) {
        t.rows = box->dims[inner];
        t.out_row = box->out_strides[inner];
        t.inp_row = box->inp_strides[inner];
    }
    int64_t chunks = inner >= 0 ? (t.rows + CHUNK - 1) / CHUNK : 1, items = box->count / (t.rows * t.cols) * chunks;
    copy c = {out, inp, box, (int64_t)element, inner, chunks, t, inner >= 0 ? tiles[element] : rows[element]};
    int64_t grain = TK_GRAIN / (box->count / items);
    tk_parallel_for(q, items, grain > 0 ? grain : 1, copy_range, &c);
}

#define DEFINE_FILL(type)                                                                                              \
    {                                                                                                                  \
        type v, *to = out;                                                                                             \
        memcpy(&v, value, sizeof v);                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = v;                                                                                                 \
        return;                                                                                                        \
    }

void tk_fill(tk_queue *q, void *out, const void *value, int64_t n, size_t element) {
    (void)q;
    switch (element) {
    case 1: DEFINE_FILL(uint8_t)
    case 2: DEFINE_FILL(uint16_t)
    case 4: DEFINE_FILL(uint32_t)
    default: DEFINE_FILL(uint64_t)
    }
}
