/* reference_movement.c: ops that move elements or create them: families movement, create and embedding. */
#include "reference.h"
#include <math.h>
#include <string.h>

static const uint64_t zero = 0; /* an element of any type */

static int64_t count_of(int rank, const int64_t *dims) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    return count;
}

static void move(void *out, int64_t to, const void *inp, int64_t from, size_t element) {
    memcpy((char *)out + (size_t)to * element, (const char *)inp + (size_t)from * element, element);
}

/* --- movement --------------------------------------------------------------------------------- */

void tk_reference_copy_strided(tk_queue *q, void *out, const void *inp, const tk_strided *box, size_t element) {
    (void)q;
    for (int64_t i = 0; i < count_of(box->rank, box->dims); i++) {
        int64_t rest = i, to = box->out_offset, from = box->inp_offset;
        for (int d = box->rank - 1; d >= 0; rest /= box->dims[d--]) {
            to += rest % box->dims[d] * box->out_strides[d];
            from += rest % box->dims[d] * box->inp_strides[d];
        }
        move(out, to, inp, from, element);
    }
}

void tk_reference_copy(tk_queue *q, void *out, const void *inp, size_t bytes) {
    (void)q;
    if (out != inp)
        for (size_t i = 0; i < bytes; i++)
            ((char *)out)[i] = ((const char *)inp)[i];
}

void tk_reference_fill(tk_queue *q, void *out, const void *value, int64_t n, size_t element) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        move(out, i, value, 0, element);
}

void tk_reference_pad(tk_queue *q, void *out, const void *inp, const void *value, int rank, const int64_t *out_dims,
                      const int64_t *inp_dims, const int64_t *maps, size_t element) {
    int64_t count = count_of(rank, out_dims);
    (void)q;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, from = 0, scale = 1, map_end = 0;
        bool inside = true;
        for (int d = 0; d < rank; d++)
            map_end += out_dims[d];
        for (int d = rank - 1; d >= 0; d--) {
            map_end -= out_dims[d];
            int64_t at = maps[map_end + rest % out_dims[d]];
            inside = inside && at >= 0;
            from += at * scale;
            scale *= inp_dims[d];
            rest /= out_dims[d];
        }
        move(out, i, inside ? inp : value ? value : &zero, inside ? from : 0, element);
    }
}

void tk_reference_trilu(tk_queue *q, void *out, const void *inp, int64_t n, int64_t rows, int64_t cols,
                        const int64_t *k, bool upper, size_t element) {
    (void)q;
    for (int64_t i = 0; i < n * rows * cols; i++) {
        int64_t right = i % cols - i / cols % rows, diagonal = k ? *k : 0; /* of the main diagonal */
        bool kept = upper ? right >= diagonal : right <= diagonal;
        if (!kept)
            move(out, i, &zero, 0, element);
        else if (out != inp)
            move(out, i, inp, i, element);
    }
}

void tk_reference_check_sizes(tk_queue *q, const int64_t *sizes, int64_t n, const int64_t *dims) {
    for (int64_t i = 0; i < n; i++)
        if (sizes[i] != 1 && sizes[i] != dims[i])
            tk_fault(q, TK_BAD_VALUE);
}

void tk_reference_reverse_sequence(tk_queue *q, void *out, const void *inp, const int64_t *lens,
                                   const tk_reverse_dims *s, size_t element) {
    int64_t size[] = {s->outer, s->d0, s->mid, s->d1, s->inner}, count = count_of(5, size);
    int time = s->time_first ? 1 : 3, batch = 4 - time;
    for (int64_t i = 0; i < count; i++) {
        int64_t at[5], rest = i, from = 0;
        for (int d = 4; d >= 0; rest /= size[d--])
            at[d] = rest % size[d];
        int64_t length = lens[at[batch]];
        if (length < 0 || length > size[time]) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        if (at[time] < length)
            at[time] = length - 1 - at[time];
        for (int d = 0; d < 5; d++)
            from = from * size[d] + at[d];
        move(out, i, inp, from, element);
    }
}

/* --- create ----------------------------------------------------------------------------------- */

void tk_reference_range(tk_queue *q, void *out, const void *start, const void *delta, int64_t n, tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < n; i++)
        if (tk_is_float(dtype))
            tk_put(out, dtype, i, tk_get(start, dtype, 0) + (double)i * tk_get(delta, dtype, 0));
        else
            tk_reference_put_int(out, dtype, i,
                                 (uint64_t)tk_get_int(start, dtype, 0) +
                                     (uint64_t)i * (uint64_t)tk_get_int(delta, dtype, 0));
}

void tk_reference_eye(tk_queue *q, void *out, const void *one, int64_t rows, int64_t cols, int64_t k, size_t element) {
    (void)q;
    for (int64_t i = 0; i < rows * cols; i++)
        move(out, i, i % cols - i / cols == k ? one : &zero, 0, element);
}

void tk_reference_one_hot(tk_queue *q, void *out, const void *values, const void *indices, tk_dtype index_type,
                          int64_t outer, int64_t depth, int64_t inner, size_t element) {
    (void)q;
    for (int64_t i = 0; i < outer * depth * inner; i++) {
        int64_t at = i / inner / depth * inner + i % inner, wanted = i / inner % depth;
        double index = tk_get(indices, index_type, at);
        bool near = index >= -0x1p62 && index < 0x1p62;
        int64_t hot = near ? tk_get_int(indices, index_type, at) : -depth - 1;
        move(out, i, values, hot == wanted || hot + depth == wanted, element);
    }
}

static bool is_true(const void *data, tk_dtype dtype, int64_t i) {
    return tk_is_float(dtype) ? tk_get(data, dtype, i) != 0 : tk_get_int(data, dtype, i) != 0;
}

void tk_reference_nonzero(tk_queue *q, int64_t *out, int64_t n, const void *inp, tk_dtype dtype, int rank,
                          const int64_t *dims, void *workspace) {
    (void)workspace;
    int64_t count = count_of(rank, dims), found = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        if (!is_true(inp, dtype, i))
            continue;
        for (int d = rank - 1; found < n && d >= 0; rest /= dims[d--])
            out[d * n + found] = rest % dims[d];
        found++;
    }
    tk_fault(q, found == n ? TK_OK : TK_BAD_VALUE);
}

void tk_reference_compress(tk_queue *q, void *out, const void *inp, const uint8_t *condition, int64_t n_condition,
                           int64_t outer, int64_t axis, int64_t inner, int64_t n, size_t element, void *workspace) {
    (void)workspace;
    int64_t found = 0;
    for (int64_t i = 0; i < axis && i < n_condition; i++) {
        if (!condition[i])
            continue;
        for (int64_t k = 0; found < n && k < outer * inner; k++)
            move(out, (k / inner * n + found) * inner + k % inner, inp, (k / inner * axis + i) * inner + k % inner,
                 element);
        found++;
    }
    tk_fault(q, found == n ? TK_OK : TK_BAD_VALUE);
}

/* Whether element a comes before element b where the largest come first: NaN is the largest. */
static int order(const void *inp, tk_dtype dtype, int64_t a, int64_t b) {
    if (tk_is_float(dtype)) {
        double x = tk_get(inp, dtype, a), y = tk_get(inp, dtype, b);
        return x != x || y != y ? (x != x) - (y != y) : (x > y) - (x < y);
    }
    int64_t x = tk_get_int(inp, dtype, a), y = tk_get_int(inp, dtype, b);
    return dtype == TK_U64 ? ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y) : (x > y) - (x < y);
}

/* Element i of a lane has rank r where r others are better, or equal and before it. */
void tk_reference_topk(tk_queue *q, void *values, int64_t *indices, const void *inp, tk_dtype dtype, int64_t outer,
                       int64_t axis, int64_t inner, int64_t k, bool largest, void *workspace) {
    (void)q, (void)workspace;
    for (int64_t at = 0; at < outer * axis * inner; at++) {
        int64_t lane = at / inner / axis, i = at / inner % axis, column = at % inner, rank = 0;
        for (int64_t j = 0; j < axis; j++) {
            int better = order(inp, dtype, (lane * axis + j) * inner + column, at) * (largest ? 1 : -1);
            rank += better > 0 || (better == 0 && j < i);
        }
        if (rank < k && values)
            move(values, (lane * k + rank) * inner + column, inp, at, tk_size(dtype));
        if (rank < k && indices)
            indices[(lane * k + rank) * inner + column] = i;
    }
}

/* --- embedding -------------------------------------------------------------------------------- */

/* Index i as a position below n; -1, and a fault, if it is out of range. */
static int64_t position(tk_queue *q, tk_indices indices, int64_t i, int64_t n) {
    int64_t at = tk_get_int(indices.data, indices.dtype, i);
    at += at < 0 ? n : 0;
    if (at >= 0 && at < n)
        return at;
    tk_fault(q, TK_BAD_INDEX);
    return -1;
}

void tk_reference_gather(tk_queue *q, void *out, const void *inp, tk_indices indices, int64_t outer, int64_t axis,
                         int64_t inner, int64_t n, size_t element) {
    for (int64_t i = 0; i < outer * n * inner; i++) {
        int64_t at = position(q, indices, i / inner % n, axis);
        if (at < 0)
            return;
        move(out, i, inp, (i / inner / n * axis + at) * inner + i % inner, element);
    }
}

void tk_reference_gather_grad(tk_queue *q, void *out, const void *grad, tk_indices indices, int64_t outer, int64_t axis,
                              int64_t inner, int64_t n, tk_dtype dtype, void *workspace) {
    (void)workspace;
    double *sums = tk_reference_room(q, outer * axis * inner);
    for (int64_t i = 0; sums && i < outer * n * inner; i++) {
        int64_t at = position(q, indices, i / inner % n, axis);
        if (at < 0)
            break;
        sums[(i / inner / n * axis + at) * inner + i % inner] += tk_get(grad, dtype, i);
    }
    for (int64_t i = 0; sums && i < outer * axis * inner; i++)
        tk_put(out, dtype, i, sums[i]);
    free(sums);
}

/* Where element i of an array of sizes `dims` lies in one of sizes `other`, with its index along `axis`; -1: nowhere.
 */
static int64_t element_of(tk_queue *q, tk_indices indices, int64_t i, int rank, const int64_t *dims,
                          const int64_t *other, int axis) {
    int64_t at = 0, rest = i, scale = 1, along = position(q, indices, i, other[axis]);
    for (int d = rank - 1; along >= 0 && d >= 0; rest /= dims[d--]) {
        at += (d == axis ? along : rest % dims[d]) * scale;
        scale *= other[d];
    }
    return along < 0 ? -1 : at;
}

void tk_reference_gather_elements(tk_queue *q, void *out, const void *inp, tk_indices indices, int rank,
                                  const int64_t *out_dims, const int64_t *inp_dims, int axis, size_t element) {
    for (int64_t i = 0; i < count_of(rank, out_dims); i++) {
        int64_t from = element_of(q, indices, i, rank, out_dims, inp_dims, axis);
        if (from < 0)
            return;
        move(out, i, inp, from, element);
    }
}

static void combine(void *out, int64_t to, const void *updates, int64_t from, tk_scatter_kind kind, tk_dtype dtype) {
    double x = tk_get(out, dtype, to), y = tk_get(updates, dtype, from);
    uint64_t a = tk_is_float(dtype) ? 0 : (uint64_t)tk_get_int(out, dtype, to),
             b = tk_is_float(dtype) ? 0 : (uint64_t)tk_get_int(updates, dtype, from);
    if (kind == TK_ADD || kind == TK_MUL) {
        if (tk_is_float(dtype))
            tk_put(out, dtype, to, kind == TK_ADD ? x + y : x * y);
        else
            tk_reference_put_int(out, dtype, to, kind == TK_ADD ? a + b : a * b);
        return;
    }
    size_t size = tk_size(dtype);
    _Alignas(8) char both[16]; /* one array of two, for order() */
    move(both, 0, out, to, size);
    move(both, 1, updates, from, size);
    int less = order(both, dtype, 0, 1);
    if (kind == TK_PUT || (x == x && (y != y || (kind == TK_MIN ? less > 0 : less < 0))))
        move(out, to, updates, from, size);
}

void tk_reference_scatter_elements(tk_queue *q, void *out, tk_indices indices, const void *updates, int rank,
                                   const int64_t *upd_dims, const int64_t *out_dims, int axis,
                                   tk_scatter_kind reduction, tk_dtype dtype, void *workspace) {
    (void)workspace;
    for (int64_t i = 0; i < count_of(rank, upd_dims); i++) {
        int64_t to = element_of(q, indices, i, rank, upd_dims, out_dims, axis);
        if (to < 0)
            return;
        combine(out, to, updates, i, reduction, dtype);
    }
}

/* The row that tuple i points at; -1: none. */
static int64_t row_of(tk_queue *q, tk_indices indices, const tk_nd *nd, int64_t i) {
    int64_t row = 0;
    for (int d = 0; d < nd->depth; d++) {
        int64_t at = position(q, indices, i * nd->depth + d, nd->dims[d]);
        if (at < 0)
            return -1;
        row = row * nd->dims[d] + at;
    }
    return row;
}

void tk_reference_gather_nd(tk_queue *q, void *out, const void *inp, tk_indices indices, const tk_nd *nd,
                            size_t element) {
    int64_t rows = count_of(nd->depth, nd->dims);
    for (int64_t i = 0; i < nd->batch * nd->n * nd->inner; i++) {
        int64_t row = row_of(q, indices, nd, i / nd->inner);
        if (row < 0)
            return;
        move(out, i, inp, (i / nd->inner / nd->n * rows + row) * nd->inner + i % nd->inner, element);
    }
}

void tk_reference_scatter_nd(tk_queue *q, void *out, tk_indices indices, const void *updates, const tk_nd *nd,
                             tk_scatter_kind reduction, tk_dtype dtype, void *workspace) {
    (void)workspace;
    for (int64_t i = 0; i < nd->n * nd->inner; i++) {
        int64_t row = row_of(q, indices, nd, i / nd->inner);
        if (row < 0)
            return;
        combine(out, row * nd->inner + i % nd->inner, updates, i, reduction, dtype);
    }
}

void tk_reference_tensor_scatter(tk_queue *q, void *out, const void *updates, const int64_t *starts,
                                 const tk_cache_dims *s, size_t element) {
    for (int64_t i = 0; i < s->batch * s->mid * s->length * s->inner; i++) {
        int64_t row = i / s->inner / s->length, start = starts ? starts[row / s->mid] : 0;
        int64_t at = start + i / s->inner % s->length;
        if (start < 0 || start > INT64_MAX - s->length || s->axis == 0 ||
            (!s->circular && start + s->length > s->axis)) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
        move(out, (row * s->axis + at % s->axis) * s->inner + i % s->inner, updates, i, element);
    }
}

/* --- random numbers ----------------------------------------------------------------------------- */

static double drawn(tk_seed seed, int64_t word, int bits) {
    tk_draw draw = tk_draw_of(seed);
    uint32_t words[4];
    tk_draw_block(&draw, (uint64_t)word / 4, words);
    return ldexp((double)(words[word % 4] >> (32 - bits)), -bits);
}

void tk_reference_random_uniform(tk_queue *q, void *out, int64_t n, float low, float high, tk_seed seed,
                                 tk_dtype dtype) {
    (void)q;
    int bits = dtype == TK_F16 ? 11 : dtype == TK_BF16 ? 8 : 24;
    for (int64_t i = 0; i < n; i++)
        tk_put(out, dtype, i, low + ((double)high - low) * drawn(seed, i, bits));
}

void tk_reference_random_normal(tk_queue *q, void *out, int64_t n, float mean, float scale, tk_seed seed,
                                tk_dtype dtype) {
    (void)q;
    for (int64_t i = 0; i < n; i++) {
        double radius = sqrt(-2 * log1p(-drawn(seed, 2 * i, 24)));
        tk_put(out, dtype, i, mean + scale * radius * cos(2 * acos(-1) * drawn(seed, 2 * i + 1, 24)));
    }
}
