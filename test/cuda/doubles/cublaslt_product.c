/* cublaslt_product.c: computes a product of the cuBLASLt double, in plain loops of one order, on emulated memory. */
#include "cublaslt_problem.h"
#include "cuda_work.h"
#include "double_elements.h"
#include <stdlib.h>
#include <string.h>

static const char who[] = "cublasLtMatmul";

enum {
    ROWS = 256, /* of D at a time */
    PART = 64,  /* products that are summed before they go to the whole sum */
};

static void *made(size_t n, size_t size) {
    void *p = calloc(n, size);
    if (!p)
        abort();
    return p;
}

/* --- whether operands are as they should be ---------------------------------------------------- */

typedef bool may_fn(const void *at, size_t bytes, const char *what);
static bool may_read(const void *at, size_t bytes, const char *what) { return emu_may_read(at, bytes, who, what); }
static bool may_write(const void *at, size_t bytes, const char *what) {
    return emu_may_touch(at, bytes, true, who, what);
}

/* Asks for the elements of all matrices of an operand, column by column, or row by row: not for what lies between. */
static bool ask(const lt_product *p, int operand, may_fn *may) {
    static const char *const names[LT_OPERANDS] = {"operand A", "operand B", "operand C", "result D"};
    const lt_layout *l = &p->problem.layouts[operand];
    const bool by_row = l->order == CUBLASLT_ORDER_ROW;
    const int64_t item = (int64_t)double_size(l->type);
    int64_t major = (int64_t)(by_row ? l->rows : l->cols), minor = (int64_t)(by_row ? l->cols : l->rows);
    if (l->ld == minor) {
        minor *= major;
        major = 1;
    }
    for (int64_t b = 0; b < l->batch; b++)
        for (int64_t i = 0; i < major; i++)
            if (!may((const char *)p->at[operand] + (b * l->stride + i * l->ld) * item, (size_t)(minor * item),
                     names[operand]))
                return false;
    return true;
}

static bool wrote(const void *at, size_t bytes, const char *what) {
    (void)what;
    emu_host_wrote((void *)at, bytes);
    return true;
}

/* How many elements the bias, or its gradient, has. */
static uint64_t bias_size(const lt_problem *p) {
    const int e = p->op.epilogue;
    return e == CUBLASLT_EPILOGUE_BGRADB                                 ? p->n
           : e == CUBLASLT_EPILOGUE_BGRADA || (e & (LT_BIAS | LT_BGRAD)) ? p->m
                                                                         : 0;
}

/* Of a matrix of the batch: bias and auxiliary matrix; their gradients and outputs are written. */
static bool ask_epilogue(const lt_problem *p, int64_t batch, may_fn *read, may_fn *write) {
    const lt_operation *op = &p->op;
    const size_t item = double_size(p->layouts[LT_D].type);
    const bool bits = op->epilogue & (LT_RELU | LT_DRELU);
    const uint64_t bias = bias_size(p);
    bool right = true;
    if (bias > 0 && op->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        right = (op->epilogue & LT_BIAS ? read : write)(
            (const char *)op->bias + batch * op->bias_stride * (int64_t)item, (size_t)bias * item, "bias");
    if (!(op->epilogue & LT_AUX))
        return right;
    may_fn *may = op->epilogue & (LT_RELU | LT_GELU) ? write : read;
    for (uint64_t col = 0; right && col < p->n; col++) {
        const int64_t at = batch * op->aux_stride + (int64_t)col * op->aux_ld;
        right = may((const char *)op->aux + (bits ? at / 8 : at * (int64_t)item),
                    bits ? (size_t)(p->m + 7) / 8 : (size_t)p->m * item, "auxiliary matrix");
    }
    return right;
}

static bool always(const void *at, size_t bytes, const char *what) {
    (void)at, (void)bytes, (void)what;
    return true;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* total[rows] of a [k, rows] and b [k]: what each element of D sums up, in one order whatever the shapes of others. */
#define DEFINE_SUM(T)                                                                                                  \
    static void sum_##T(T *total, T *part, const T *a, const T *b, size_t rows, size_t k) {                            \
        memset(total, 0, rows * sizeof *total);                                                                        \
        for (size_t from = 0; from < k; from += PART) {                                                                \
            memset(part, 0, rows * sizeof *part);                                                                      \
            for (size_t x = from; x < k && x < from + PART; x++)                                                       \
                for (size_t i = 0; i < rows; i++)                                                                      \
                    part[i] += a[x * rows + i] * b[x];                                                                 \
            for (size_t i = 0; i < rows; i++)                                                                          \
                total[i] += part[i];                                                                                   \
        }                                                                                                              \
    }
DEFINE_SUM(float)
DEFINE_SUM(double)

/* One matrix of the batch, a strip of rows at a time. */
typedef struct strip {
    const lt_product *p;
    int64_t batch;
    uint64_t row, rows;
    void *a, *b, *total, *part; /* [k, rows], [k], [rows], [rows]: of doubles if `wide`, else floats */
    bool wide;
    double *bias_grad; /* [m] or [n] */
} strip;

static double operand_at(const strip *s, lt_operand operand, uint64_t row, uint64_t col) {
    const lt_layout *l = &s->p->problem.layouts[operand];
    const double v = double_get(s->p->at[operand], l->type, lt_index(l, s->batch, row, col));
    return s->p->problem.op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && operand != LT_C ? double_as_tf32(v) : v;
}

static void keep(const strip *s, void *to, uint64_t i, double v) {
    if (s->wide)
        ((double *)to)[i] = v;
    else
        ((float *)to)[i] = (float)v;
}

static void load_a(const strip *s) {
    const lt_problem *p = &s->p->problem;
    for (uint64_t x = 0; x < p->k; x++)
        for (uint64_t i = 0; i < s->rows; i++)
            keep(s, s->a, x * s->rows + i,
                 p->op.trans_a ? operand_at(s, LT_A, x, s->row + i) : operand_at(s, LT_A, s->row + i, x));
}

static void load_b(const strip *s, uint64_t col) {
    const lt_problem *p = &s->p->problem;
    for (uint64_t x = 0; x < p->k; x++)
        keep(s, s->b, x, p->op.trans_b ? operand_at(s, LT_B, col, x) : operand_at(s, LT_B, x, col));
}

static double kept(const strip *s, const void *from, uint64_t i) {
    return s->wide ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* --- epilogues -------------------------------------------------------------------------------- */

static float inner(float x) { return 0.7978845608f * (x + 0.044715f * x * x * x); }
static float gelu(float x) { return 0.5f * x * (1 + tanhf(inner(x))); }
static float gelu_slope(float x) {
    const float t = tanhf(inner(x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

/* alpha sum + beta c, in the type that sums are of. */
static double scaled(const strip *s, double sum, uint64_t row, uint64_t col) {
    if (s->wide)
        return s->p->beta == 0 ? s->p->alpha * sum : s->p->alpha * sum + s->p->beta * operand_at(s, LT_C, row, col);
    const float v = (float)s->p->alpha * (float)sum;
    return (double)(s->p->beta == 0 ? v : v + (float)s->p->beta * (float)operand_at(s, LT_C, row, col));
}

static double with_epilogue(const strip *s, double v, uint64_t row, uint64_t col) {
    const lt_operation *op = &s->p->problem.op;
    const int32_t type = s->p->problem.layouts[LT_D].type;
    const int64_t aux = s->batch * op->aux_stride + (int64_t)col * op->aux_ld + (int64_t)row;
    unsigned char *bits = (unsigned char *)op->aux + aux / 8;
    const unsigned char bit = (unsigned char)(1 << aux % 8);
    if (op->epilogue & LT_BIAS)
        v = (double)((float)v + (float)double_get(op->bias, type, s->batch * op->bias_stride + (int64_t)row));
    if (lt_has(op, LT_RELU | LT_AUX))
        *bits = (unsigned char)(v > 0 ? *bits | bit : *bits & ~bit);
    if (lt_has(op, LT_GELU | LT_AUX))
        double_put(op->aux, type, aux, v);
    if (op->epilogue & LT_RELU)
        v = v > 0 ? v : 0;
    if (op->epilogue & LT_GELU)
        v = (double)gelu((float)v);
    if (op->epilogue & LT_DRELU)
        v = *bits & bit ? v : 0;
    if (op->epilogue & LT_DGELU)
        v = (double)((float)v * gelu_slope((float)double_get(op->aux, type, aux)));
    if (op->epilogue & LT_BGRAD)
        s->bias_grad[row] += v;
    return v;
}

static void store_column(const strip *s, uint64_t col) {
    const lt_layout *d = &s->p->problem.layouts[LT_D];
    const bool plain = s->p->problem.op.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    for (uint64_t i = 0; i < s->rows; i++) {
        double v = scaled(s, kept(s, s->total, i), s->row + i, col);
        if (!plain)
            v = with_epilogue(s, v, s->row + i, col);
        double_put((void *)s->p->at[LT_D], d->type, lt_index(d, s->batch, s->row + i, col), v);
    }
}

/* Sums of the rows of op(A), or the columns of op(B), over k: of what was loaded. */
static void sum_operand(const strip *s, uint64_t col) {
    const lt_problem *p = &s->p->problem;
    if (p->op.epilogue == CUBLASLT_EPILOGUE_BGRADA && col == 0)
        for (uint64_t x = 0; x < p->k; x++)
            for (uint64_t i = 0; i < s->rows; i++)
                s->bias_grad[s->row + i] += kept(s, s->a, x * s->rows + i);
    if (p->op.epilogue == CUBLASLT_EPILOGUE_BGRADB && s->row == 0)
        for (uint64_t x = 0; x < p->k; x++)
            s->bias_grad[col] += kept(s, s->b, x);
}

static void run_strip(strip *s) {
    const lt_problem *p = &s->p->problem;
    load_a(s);
    for (uint64_t col = 0; col < p->n; col++) {
        load_b(s, col);
        if (s->wide)
            sum_double(s->total, s->part, s->a, s->b, (size_t)s->rows, (size_t)p->k);
        else
            sum_float(s->total, s->part, s->a, s->b, (size_t)s->rows, (size_t)p->k);
        sum_operand(s, col);
        store_column(s, col);
    }
}

static void run_matrix(const lt_product *product, int64_t batch) {
    const lt_problem *p = &product->problem;
    const bool wide = p->op.scale == CUDA_R_64F;
    const size_t item = wide ? sizeof(double) : sizeof(float), k = (size_t)p->k;
    strip s = {product,
               batch,
               0,
               0,
               made(k * ROWS, item),
               made(k, item),
               made(ROWS, item),
               made(ROWS, item),
               wide,
               made((size_t)(p->m > p->n ? p->m : p->n), sizeof(double))};
    for (; s.row < p->m; s.row += ROWS) {
        s.rows = p->m - s.row < ROWS ? p->m - s.row : ROWS;
        run_strip(&s);
    }
    if (!(p->op.epilogue & LT_BIAS))
        for (uint64_t i = 0; i < bias_size(p); i++)
            double_put(p->op.bias, p->layouts[LT_D].type, batch * p->op.bias_stride + (int64_t)i, s.bias_grad[i]);
    free(s.a);
    free(s.b);
    free(s.total);
    free(s.part);
    free(s.bias_grad);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* Factors on the device are read when the product runs. */
static bool read_factors(lt_product *p) {
    if (!p->alpha_at)
        return true;
    const int32_t type = p->problem.op.scale;
    if (!emu_may_read(p->alpha_at, double_size(type), who, "alpha") ||
        !emu_may_read(p->beta_at, double_size(type), who, "beta"))
        return false;
    p->alpha = double_get(p->alpha_at, type, 0);
    p->beta = double_get(p->beta_at, type, 0);
    return true;
}

void lt_run_product(void *product) {
    lt_product *p = product;
    const lt_problem *of = &p->problem;
    bool right = emu_may_touch(p->workspace, p->workspace_bytes, true, who, "workspace") && read_factors(p);
    if (right && p->workspace_bytes > 0)
        memset(p->workspace, 0xff, p->workspace_bytes);
    right = right && ask(p, LT_A, may_read) && ask(p, LT_B, may_read) && ask(p, LT_D, may_write);
    right = right && (p->beta == 0 || ask(p, LT_C, may_read));
    for (int64_t b = 0; right && b < of->layouts[LT_D].batch; b++)
        right = ask_epilogue(of, b, may_read, may_write);
    if (!right)
        return;
    for (int64_t b = 0; b < of->layouts[LT_D].batch; b++) {
        run_matrix(p, b);
        ask_epilogue(of, b, always, wrote);
    }
    ask(p, LT_D, wrote);
}
