/* movement_cpu.c: copies, Pad, Trilu and ReverseSequence: rows are copied whole where they can be. */
#include "movement.h"
#include "../queue.h"
#include <string.h>

typedef struct pad {
    char *out;
    const char *inp;
    const void *value;
    int rank;
    const int64_t *out_dims, *inp_dims;
    const int64_t *map; /* of the last dim */
    int64_t element;
} pad;

/* The last dim of one row: runs of consecutive sources are copied at once. `from` is the row's first input element,
 * or -1. */
static void pad_row(tk_queue *q, const pad *p, int64_t to, int64_t from) {
    int64_t n = p->out_dims[p->rank - 1];
    const int64_t *map = p->map;
    for (int64_t i = 0; i < n;) {
        int64_t run = 1;
        bool constant = from < 0 || map[i] < 0;
        while (i + run < n && (constant ? from < 0 || map[i + run] < 0 : map[i + run] == map[i] + run))
            run++;
        char *at = p->out + (to + i) * p->element;
        if (constant)
            tk_fill(q, at, p->value, run, (size_t)p->element);
        else
            memcpy(at, p->inp + (from + map[i]) * p->element, (size_t)(run * p->element));
        i += run;
    }
}

void tk_pad(tk_queue *q, void *out, const void *inp, const void *value, int rank, const int64_t *out_dims,
            const int64_t *inp_dims, const int64_t *maps, size_t element) {
    static const uint64_t zero = 0;
    const int64_t *map_of[TK_MAX_RANK] = {NULL};
    int64_t rows = 1;
    for (int d = 0; d < rank; d++) {
        map_of[d] = maps;
        maps += out_dims[d];
        rows *= d < rank - 1 ? out_dims[d] : 1;
    }
    pad p = {out, inp, value ? value : &zero, rank, out_dims, inp_dims, map_of[rank - 1], (int64_t)element};
    for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row, from = 0, scale = inp_dims[rank - 1];
        for (int d = rank - 2; d >= 0; d--) {
            int64_t source = map_of[d][rest % out_dims[d]];
            rest /= out_dims[d];
            from = source < 0 || from < 0 ? -1 : from + source * scale;
            scale *= inp_dims[d];
        }
        pad_row(q, &p, row * out_dims[rank - 1], from);
    }
}

void tk_trilu(tk_queue *q, void *out, const void *inp, int64_t n, int64_t rows, int64_t cols, const int64_t *diagonal,
              bool upper, size_t element) {
    (void)q;
    int64_t k = diagonal ? *diagonal : 0, size = (int64_t)element;
    for (int64_t row = 0; row < n * rows; row++) {
        int64_t r = row % rows;
        /* First column right of the diagonal's element in this row when lower, at it when upper. */
        int64_t edge = k > cols ? cols : k < -rows ? -rows : k;
        edge += r + (upper ? 0 : 1);
        edge = edge < 0 ? 0 : edge > cols ? cols : edge;
        char *to = (char *)out + row * cols * size;
        const char *from = (const char *)inp + row * cols * size;
        int64_t keep = upper ? edge : 0, kept = upper ? cols - edge : edge;
        if (out != inp && kept > 0)
            memcpy(to + keep * size, from + keep * size, (size_t)(kept * size));
        if (kept < cols)
            memset(upper ? to : to + edge * size, 0, (size_t)((cols - kept) * size));
    }
}

void tk_copy(tk_queue *q, void *out, const void *inp, size_t bytes) {
    (void)q;
    if (out != inp && bytes > 0)
        memcpy(out, inp, bytes);
}

void tk_check_sizes(tk_queue *q, const int64_t *sizes, int64_t n, const int64_t *dims) {
    for (int64_t i = 0; i < n; i++)
        tk_fault(q, sizes[i] == 1 || sizes[i] == dims[i] ? TK_OK : TK_BAD_VALUE);
}

void tk_reverse_sequence(tk_queue *q, void *out, const void *inp, const int64_t *lens, const tk_reverse_dims *dims,
                         size_t element) {
    int64_t time = dims->time_first ? dims->d0 : dims->d1, batch = dims->time_first ? dims->d1 : dims->d0;
    int64_t bytes = dims->inner * (int64_t)element;
    for (int64_t b = 0; b < batch; b++)
        if (lens[b] < 0 || lens[b] > time) {
            tk_fault(q, TK_BAD_INDEX);
            return;
        }
    for (int64_t i = 0; i < dims->outer * dims->d0 * dims->mid * dims->d1; i++) {
        int64_t i1 = i % dims->d1, m = i / dims->d1 % dims->mid, i0 = i / dims->d1 / dims->mid % dims->d0;
        int64_t o = i / dims->d1 / dims->mid / dims->d0;
        int64_t *t = dims->time_first ? &i0 : &i1, length = lens[dims->time_first ? i1 : i0];
        *t = *t < length ? length - 1 - *t : *t;
        int64_t from = ((o * dims->d0 + i0) * dims->mid + m) * dims->d1 + i1;
        memcpy((char *)out + i * bytes, (const char *)inp + from * bytes, (size_t)bytes);
    }
}
