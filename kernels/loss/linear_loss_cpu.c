/* linear_loss_cpu.c: the loss of linear_loss.h, chunk by chunk: rows whose labels count are gathered until a chunk is
 * full, and three products are made of it. Chunks follow one another, each uses all threads. */
#include "../common/element.h"
#include "../common/math.h"
#include "../common/parallel.h"
#include "../common/types.h"
#include "../movement/cast.h"
#include "linear_loss.h"
#include <string.h>

#define CHUNK_BYTES ((int64_t)32 << 20) /* of scores */

/* As many rows as the bytes of a chunk allow, but no chunk larger than W: the gradient of W takes that memory anyway,
 * and small problems stay small. Even parts. */
int64_t tk_linear_loss_chunk(const tk_linear_loss *s) {
    int64_t row = s->classes * (int64_t)tk_size(tk_wide(s->dtype)), most = row > 0 ? CHUNK_BYTES / row : s->rows;
    most = most < s->hidden ? most : s->hidden;
    most = most > 1 ? most : 1;
    if (s->rows <= most)
        return s->rows > 0 ? s->rows : 1;
    int64_t parts = (s->rows - 1) / most + 1;
    return (s->rows - 1) / parts + 1;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The parts of the workspace, in bytes from its begin; `end` is where the products' own begins. */
typedef struct layout {
    size_t scores, gathered, rows, losses, bias, weights, dw, db, end;
} layout;

static size_t take(size_t *at, bool wanted, int64_t count, size_t size) {
    size_t begin = *at;
    if (wanted)
        *at += ((size_t)count * size + 63) / 64 * 64;
    return begin;
}

static layout layout_of(const tk_linear_loss *s) {
    size_t at = 0, wide = tk_size(tk_wide(s->dtype));
    int64_t chunk = tk_linear_loss_chunk(s);
    layout l = {.scores = take(&at, true, chunk * s->classes, wide)};
    l.gathered = take(&at, s->has_ignored, chunk * s->hidden, tk_size(s->dtype));
    l.rows = take(&at, true, chunk, sizeof(int64_t));
    l.losses = take(&at, true, chunk, sizeof(double));
    l.bias = take(&at, tk_is_half(s->dtype), s->classes, wide);
    l.weights = take(&at, s->loss_dtype != tk_wide(s->dtype), s->classes, wide);
    l.dw = take(&at, s->wants_dw && tk_is_half(s->dtype), s->classes * s->hidden, wide);
    l.db = take(&at, s->wants_db, s->classes, sizeof(double));
    l.end = at;
    return l;
}

/* --- a walk ----------------------------------------------------------------------------------- */

typedef struct walk {
    tk_queue *q;
    const tk_linear_loss *shape;
    tk_linear_loss_results out;
    tk_linear_loss_operands in;
    bool has_gradient;
    const void *weights, *bias; /* in the type to compute in; NULL: there are none */
    double weight_sum;          /* of all classes */
    double scale;               /* of all gradients: dloss over the mean's divisor */
    char *scores;               /* [chunk, classes]; of 16 bits, their gradient lies at the begin of each row */
    void *gathered;             /* [chunk, hidden] */
    int64_t *rows;              /* the chunk's, by number */
    double *losses, *db;
    void *dw; /* where the gradient of W is added up */
    void *products;
    int64_t count; /* rows of the chunk */
    bool begun;    /* this is not the first chunk */
} walk;

#define T float
#define SUFFIX f32
#include "linear_loss_tmpl.h"
#define T double
#define SUFFIX f64
#include "linear_loss_tmpl.h"

static bool is_wide(const walk *w) { return tk_wide(w->shape->dtype) == TK_F64; }
static int64_t label_of(const walk *w, int64_t row) { return tk_get_int(w->in.labels, w->shape->label_dtype, row); }
static bool is_ignored(const tk_linear_loss *s, int64_t label) { return s->has_ignored && label == s->ignored; }

static const void *row_of_x(const walk *w, int64_t row) {
    return (const char *)w->in.x + (size_t)(row * w->shape->hidden) * tk_size(w->shape->dtype);
}
static void *row_of_dx(const walk *w, int64_t row) {
    return (char *)w->out.dx + (size_t)(row * w->shape->hidden) * tk_size(w->shape->dtype);
}
static size_t row_bytes(const walk *w) { return (size_t)w->shape->hidden * tk_size(w->shape->dtype); }

static double seed_of_row(const walk *w, int64_t row) {
    bool each = w->shape->reduction == TK_LOSS_NONE && w->in.dloss;
    return each ? tk_get(w->in.dloss, w->shape->loss_dtype, row) : 1;
}

static void rows_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    for (int64_t i = share.begin; i < share.end; i++) {
        char *z = w->scores + (size_t)(i * w->shape->classes) * tk_size(tk_wide(w->shape->dtype));
        int64_t label = label_of(w, w->rows[i]);
        double seed = seed_of_row(w, w->rows[i]);
        w->losses[i] = is_wide(w) ? one_row_f64(w, (double *)z, label, seed) : one_row_f32(w, (float *)z, label, seed);
    }
}

static void columns_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    int64_t n = share.end - share.begin, stride = w->shape->classes;
    if (is_wide(w))
        add_columns_f64(w->db + share.begin, (const double *)w->scores + share.begin, w->count, stride, n);
    else
        add_columns_f32(w->db + share.begin, (const float *)w->scores + share.begin, w->count, stride, n);
}

/* Rows of floats become rows of 16-bit numbers that begin where they did. A block is read before it is written over. */
static void narrow_range(void *ctx, tk_share share) {
    const walk *w = ctx;
    float block[512];
    for (int64_t i = share.begin; i < share.end; i++) {
        float *row = (float *)w->scores + i * w->shape->classes;
        for (int64_t at = 0; at < w->shape->classes; at += 512) {
            int64_t n = w->shape->classes - at < 512 ? w->shape->classes - at : 512;
            memcpy(block, row + at, (size_t)n * sizeof *block);
            tk_narrow((char *)row + 2 * at, block, n, w->shape->dtype);
        }
    }
}

/* --- products --------------------------------------------------------------------------------- */

tk_product tk_linear_loss_product(const tk_linear_loss *s, tk_linear_loss_role which, int64_t count) {
    int64_t ldw = s->trans_w ? s->hidden : s->classes, ldz = s->classes * (tk_is_half(s->dtype) ? 2 : 1);
    tk_product p = {.batch = 1, .alpha = 1};
    if (which == TK_LINEAR_LOSS_SCORES) {
        p.m = count, p.n = s->classes, p.k = s->hidden;
        p.lda = s->hidden, p.ldb = ldw, p.trans_b = s->trans_w;
    } else if (which == TK_LINEAR_LOSS_OF_X) {
        p.m = count, p.n = s->hidden, p.k = s->classes;
        p.lda = ldz, p.ldb = ldw, p.trans_b = !s->trans_w;
    } else {
        p.m = s->trans_w ? s->classes : s->hidden, p.n = s->trans_w ? s->hidden : s->classes, p.k = count;
        p.lda = s->trans_w ? ldz : s->hidden, p.ldb = s->trans_w ? s->hidden : ldz, p.trans_a = true;
    }
    p.wide = which != TK_LINEAR_LOSS_OF_X && tk_is_half(s->dtype);
    return p;
}

size_t tk_linear_loss_workspace(const tk_linear_loss *s, int slots) {
    size_t most = 0;
    for (int i = TK_LINEAR_LOSS_SCORES; i <= TK_LINEAR_LOSS_OF_X; i++) {
        tk_product p = tk_linear_loss_product(s, (tk_linear_loss_role)i, tk_linear_loss_chunk(s));
        size_t bytes = tk_product_workspace(&p, s->dtype, slots);
        most = bytes > most ? bytes : most;
    }
    return layout_of(s).end + most;
}

static void multiply(const walk *w, tk_linear_loss_role which, void *out, const void *a, const void *b, double alpha,
                     double beta) {
    tk_product p = tk_linear_loss_product(w->shape, which, w->count);
    p.alpha = alpha;
    p.beta = beta;
    tk_product_run(w->q, out, a, b, &p, w->shape->dtype, w->products);
}

/* The chunk's rows of x: in place, or gathered where other rows lie between them. */
static const void *gather(const walk *w) {
    int64_t first = w->rows[0];
    if (w->rows[w->count - 1] - first == w->count - 1)
        return row_of_x(w, first);
    for (int64_t i = 0; i < w->count; i++)
        memcpy((char *)w->gathered + (size_t)i * row_bytes(w), row_of_x(w, w->rows[i]), row_bytes(w));
    return w->gathered;
}

/* dx may be x: the chunk's rows have been read for the last time. */
static void put_dx(const walk *w, bool gathered) {
    void *dx = gathered ? w->gathered : row_of_dx(w, w->rows[0]);
    multiply(w, TK_LINEAR_LOSS_OF_X, dx, w->scores, w->in.w, w->scale, 0);
    for (int64_t i = 0; gathered && i < w->count; i++)
        memcpy(row_of_dx(w, w->rows[i]), (const char *)dx + (size_t)i * row_bytes(w), row_bytes(w));
}

static double walk_chunk(walk *w) {
    const tk_linear_loss *s = w->shape;
    const void *x = gather(w);
    double loss = 0;
    multiply(w, TK_LINEAR_LOSS_SCORES, w->scores, x, w->in.w, 1, 0);
    tk_parallel_for(w->q, w->count, TK_GRAIN / 4 / (s->classes + 1) + 1, rows_range, w);
    for (int64_t i = 0; i < w->count; i++) {
        loss += w->losses[i];
        if (s->reduction == TK_LOSS_NONE)
            tk_put(w->out.loss, s->loss_dtype, w->rows[i], w->losses[i]);
    }
    if (w->out.db)
        tk_parallel_for(w->q, s->classes, 1024, columns_range, w);
    if (tk_is_half(s->dtype) && (w->out.dx || w->out.dw))
        tk_parallel_for(w->q, w->count, TK_GRAIN / s->classes + 1, narrow_range, w);
    if (w->out.dw && s->trans_w)
        multiply(w, TK_LINEAR_LOSS_OF_W, w->dw, w->scores, x, w->scale, w->begun);
    else if (w->out.dw)
        multiply(w, TK_LINEAR_LOSS_OF_W, w->dw, x, w->scores, w->scale, w->begun);
    if (w->out.dx)
        put_dx(w, x == w->gathered);
    w->begun = true;
    return loss;
}

static double walk_rows(walk *w) {
    const tk_linear_loss *s = w->shape;
    int64_t chunk = tk_linear_loss_chunk(s);
    double loss = 0;
    w->count = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        if (!is_ignored(s, label_of(w, i))) {
            w->rows[w->count++] = i;
        } else {
            if (w->out.dx)
                memset(row_of_dx(w, i), 0, row_bytes(w));
            if (s->reduction == TK_LOSS_NONE)
                tk_put(w->out.loss, s->loss_dtype, i, 0);
        }
        if (w->count == chunk || (i == s->rows - 1 && w->count > 0)) {
            loss += walk_chunk(w);
            w->count = 0;
        }
    }
    return loss;
}

/* --- before and after ------------------------------------------------------------------------- */

/* The divisor of a mean: the sum of the weights of labels that count; *out_kept is their number. */
static tk_status add_labels(const walk *w, double *out_weights, int64_t *out_kept) {
    *out_weights = 0;
    *out_kept = 0;
    for (int64_t i = 0; i < w->shape->rows; i++) {
        int64_t label = label_of(w, i);
        if (is_ignored(w->shape, label))
            continue;
        if (label < 0 || label >= w->shape->classes)
            return TK_BAD_INDEX;
        *out_weights += w->in.weights ? tk_get(w->in.weights, w->shape->loss_dtype, label) : 1;
        ++*out_kept;
    }
    return TK_OK;
}

/* An operand [classes] in the type to compute in: where it is, or in `room`. */
static const void *converted(const void *operand, void *room, const tk_linear_loss *s, tk_dtype dtype) {
    tk_dtype to = tk_wide(s->dtype);
    if (!operand || dtype == to)
        return operand;
    for (int64_t c = 0; c < s->classes; c++)
        tk_put(room, to, c, tk_get(operand, dtype, c));
    return room;
}

typedef struct finish_ctx {
    void *out;
    const double *sum;
    double scale;
    tk_dtype dtype;
} finish_ctx;

static void finish_db(void *ctx, tk_share share) {
    const finish_ctx *c = ctx;
    for (int64_t i = share.begin; i < share.end; i++)
        tk_put(c->out, c->dtype, i, c->sum[i] * c->scale);
}

static void finish(walk *w, double loss, double divisor) {
    const tk_linear_loss *s = w->shape;
    if (s->reduction != TK_LOSS_NONE)
        tk_put(w->out.loss, s->loss_dtype, 0, loss / divisor);
    finish_ctx of_b = {w->out.db, w->db, w->scale, s->dtype};
    if (w->out.dw && !w->begun) /* no row counts */
        memset(w->out.dw, 0, (size_t)(s->classes * s->hidden) * tk_size(s->dtype));
    else if (w->out.dw && tk_is_half(s->dtype))
        tk_cast(w->q, w->out.dw, w->dw, s->classes * s->hidden, s->dtype, TK_F32);
    if (w->out.db)
        tk_parallel_for(w->q, s->classes, TK_GRAIN, finish_db, &of_b);
}

void tk_linear_loss_run(tk_queue *q, tk_linear_loss_results out, tk_linear_loss_operands in, const tk_linear_loss *s,
                        void *workspace) {
    layout l = layout_of(s);
    char *at = workspace;
    walk w = {.q = q, .shape = s, .out = out, .in = in, .has_gradient = out.dx || out.dw || out.db};
    double divisor;
    int64_t kept;
    if (add_labels(&w, &divisor, &kept) != TK_OK) {
        tk_fault(q, TK_BAD_INDEX);
        return;
    }
    divisor = s->reduction == TK_LOSS_MEAN ? divisor : 1;
    w.scale = s->reduction == TK_LOSS_NONE || !in.dloss ? 1 : tk_get(in.dloss, s->loss_dtype, 0);
    w.scale = kept > 0 ? w.scale / divisor : 0;
    w.bias = converted(in.b, at + l.bias, s, s->dtype);
    w.weights = converted(in.weights, at + l.weights, s, s->loss_dtype);
    w.weight_sum = in.weights ? 0 : (double)s->classes;
    for (int64_t c = 0; in.weights && c < s->classes; c++)
        w.weight_sum += tk_get(in.weights, s->loss_dtype, c);
    w.scores = at + l.scores;
    w.gathered = at + l.gathered;
    w.rows = (int64_t *)(void *)(at + l.rows);
    w.losses = (double *)(void *)(at + l.losses);
    w.db = (double *)(void *)(at + l.db);
    w.dw = tk_is_half(s->dtype) ? at + l.dw : out.dw;
    w.products = at + l.end;
    if (out.db)
        memset(w.db, 0, (size_t)s->classes * sizeof *w.db);
    finish(&w, walk_rows(&w), divisor);
}
