/* lean_kernels.c: calls of the lean kernels, and operands for them. */
#include "lean_kernels.h"
#include "../../kernels/common/types.h"
#include "../../kernels/table_cuda.h"
#include "../../runtime/device.h"
#include <stdlib.h>
#include <string.h>

#define ELEMENTS(c) ((c)->rows * (c)->n)

/* --- calls: element[0..2] are operands, element[3..5] results; of optimizers element[5] is an operand, too --- */

static void gelu(const lean_case *c) {
    c->table->pointwise(c->q, TK_POINTWISE_gelu, c->element[3], c->element[0], ELEMENTS(c), 0, c->dtype);
}
static void gelu_grad(const lean_case *c) {
    c->table->pointwise_grad(c->q, TK_POINTWISE_gelu, c->element[3], c->element[0], c->element[1], ELEMENTS(c), 0,
                             c->dtype);
}

static tk_norm_rows norm_rows(const lean_case *c) {
    return (tk_norm_rows){.rows = c->rows,
                          .n = c->n,
                          .epsilon = 1e-5,
                          .centered = true,
                          .dtype = c->dtype,
                          .stat_dtype = tk_wide(c->dtype)};
}
static size_t norm_workspace(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    return c->table->norm_grad_workspace(&s);
}
static void norm(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    c->table->norm(c->q, c->element[3], NULL, c->row[0], c->row[1], c->element[0], c->column[0], c->column[1], &s);
}
static void norm_xhat(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    c->table->norm(c->q, c->element[3], c->element[4], NULL, c->row[1], c->element[0], c->column[0], c->column[1], &s);
}
static void scale_bias(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    c->table->scale_bias(c->q, c->element[3], c->element[0], c->column[0], c->column[1], &s);
}
static void norm_xhat_grad(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    c->table->norm_xhat_grad(c->q, c->element[3], c->column[2], c->column[3], c->element[0], c->element[1],
                             c->column[0], c->row[2], &s, c->workspace);
}
static void norm_grad(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    c->table->norm_grad(c->q, c->element[3], c->column[2], c->column[3], c->element[0], c->element[1], c->column[0],
                        c->row[0], c->row[2], &s, c->workspace);
}

static tk_softmax_shape softmax_shape(const lean_case *c) { return (tk_softmax_shape){c->rows, c->n, 1}; }
static void softmax(const lean_case *c) {
    c->table->softmax(c->q, c->element[3], c->element[0], softmax_shape(c), c->dtype);
}
static void softmax_grad(const lean_case *c) {
    c->table->softmax_grad(c->q, c->element[3], c->element[0], c->element[1], softmax_shape(c), c->dtype);
}
static void log_softmax(const lean_case *c) {
    c->table->log_softmax(c->q, c->element[3], c->element[0], softmax_shape(c), c->dtype);
}

static void add(const lean_case *c) {
    const int64_t dims[2] = {c->rows, c->n};
    const tk_shape shape = {2, dims}, both[2] = {shape, shape};
    tk_bcast bc;
    if (tk_bcast_init(&bc, shape, both, 2))
        c->table->binary_run(c->q, tk_binary_find("Add", c->dtype), c->element[3], c->element[0], c->element[1], &bc);
}
static void add_bias(const lean_case *c) {
    const int64_t dims[2] = {c->rows, c->n};
    const tk_shape shape = {2, dims}, both[2] = {shape, {1, dims + 1}};
    tk_bcast bc;
    if (tk_bcast_init(&bc, shape, both, 2))
        c->table->binary_run(c->q, tk_binary_find("Add", c->dtype), c->element[3], c->element[0], c->column[0], &bc);
}

/* Any numbers are a seed; every thread reads it. */
static void dropout(const lean_case *c) {
    c->table->dropout(c->q, c->element[3], NULL, c->element[0], ELEMENTS(c), (tk_number){NULL, TK_F64, 0.1},
                      (tk_seed){c->row[0], 5}, NULL, c->dtype);
}

/* [rows, heads of 64] to [heads, rows, 64]: attention's. */
static void split_heads(const lean_case *c) {
    tk_strided box = {.rank = 3,
                      .dims = {c->n / 64, c->rows, 64},
                      .out_strides = {64 * c->rows, 64, 1},
                      .inp_strides = {64, c->n, 1}};
    tk_strided_simplify(&box);
    c->table->copy_strided(c->q, c->element[3], c->element[0], &box, tk_size(c->dtype));
}
static void transpose(const lean_case *c) {
    tk_strided box = {.rank = 2, .dims = {c->n, c->rows}, .out_strides = {c->rows, 1}, .inp_strides = {1, c->n}};
    tk_strided_simplify(&box);
    c->table->copy_strided(c->q, c->element[3], c->element[0], &box, tk_size(c->dtype));
}

/* The gradient of a bias. */
static tk_reduction over_rows(const lean_case *c) {
    tk_reduction r;
    tk_reduction_init(&r, 2, (const int64_t[2]){c->rows, c->n}, (const bool[2]){true, false});
    return r;
}
static size_t sum_rows_workspace(const lean_case *c) {
    const tk_reduction r = over_rows(c);
    return c->table->reduce_workspace(&r);
}
static void sum_rows(const lean_case *c) {
    const tk_reduction r = over_rows(c);
    c->table->reduce(c->q, c->column[2], c->element[0], &r, TK_REDUCE_SUM, c->dtype, c->workspace);
}

/* AdamW over weights and states in float, which fill an array each; gradients are the last array, copies of 16 bits
 * another one. Of 16 bits both are half as long in bytes. The rate is some number, and so is the step. */
static tk_update_op adamw_op(const lean_case *c) {
    return (tk_update_op){.rule = TK_ADAMW,
                          .dtype = TK_F32,
                          .copy_dtype = c->dtype,
                          .rate = {.data = c->row[0], .dtype = TK_F32},
                          .scale = {.data = c->row[1], .dtype = TK_F32},
                          .step = c->row[2],
                          .alpha = 0.9,
                          .beta = 0.999,
                          .epsilon = 1e-8,
                          .weight_decay = 0.01};
}
static size_t adamw_workspace(const lean_case *c) {
    const tk_update_op u = adamw_op(c);
    return c->table->update_workspace(&u);
}
static void adamw(const lean_case *c) {
    const bool is_half = tk_is_half(c->dtype);
    const tk_update_op u = adamw_op(c);
    const tk_update_tensor t = {.g = {c->element[5], is_half ? ELEMENTS(c) / 2 : ELEMENTS(c), c->dtype},
                                .x = c->element[0],
                                .state = {c->element[1], c->element[2]},
                                .x_new = c->element[0],
                                .state_new = {c->element[1], c->element[2]},
                                .copy = is_half ? c->element[3] : NULL};
    c->table->update(c->q, &u, &t, 1, c->workspace);
}

static tk_gradient gradient(const lean_case *c) { return (tk_gradient){c->element[5], ELEMENTS(c), c->dtype}; }
static size_t global_norm_workspace(const lean_case *c) {
    const tk_gradient g = gradient(c);
    return c->table->global_norm_workspace(&g, 1);
}
static void global_norm(const lean_case *c) {
    const tk_gradient g = gradient(c);
    c->table->global_norm(c->q, c->column[2], c->element[4], 1, &g, 1, TK_F32, c->workspace);
}

const lean_kernel lean_kernels[] = {
    {"gelu", gelu, NULL, 2, 0, 0, 1},
    {"gelu_grad", gelu_grad, NULL, 3, 0, 0, 1},
    {"norm", norm, NULL, 2, 2, 2, 1},
    {"norm_xhat", norm_xhat, NULL, 3, 2, 1, 1},
    {"scale_bias", scale_bias, NULL, 2, 2, 0, 1},
    {"norm_xhat_grad", norm_xhat_grad, norm_workspace, 3, 1, 1, 1.5},
    {"norm_grad", norm_grad, norm_workspace, 3, 1, 2, 1.5},
    {"softmax", softmax, NULL, 2, 0, 0, 1},
    {"softmax_grad", softmax_grad, NULL, 3, 0, 0, 1},
    {"log_softmax", log_softmax, NULL, 2, 0, 0, 1},
    {"add", add, NULL, 3, 0, 0, 1},
    {"add_bias", add_bias, NULL, 2, 1, 0, 1},
    {"dropout", dropout, NULL, 2, 0, 0, 1.5},
    {"split_heads", split_heads, NULL, 2, 0, 0, 1},
    {"transpose", transpose, NULL, 2, 0, 0, 1},
    {"sum_rows", sum_rows, sum_rows_workspace, 1, 0, 0, 1.05},
    {"global_norm", global_norm, global_norm_workspace, 1, 0, 0, 1},
    {"adamw", adamw, adamw_workspace, 7, 0, 0, 1}, /* over its operands, so it comes last */
    {NULL, NULL, NULL, 0, 0, 0, 0},
};

/* --- operands ------------------------------------------------------------------------------------ */

/* Numbers of a fixed sequence; NULL: out of memory. */
static void *numbers(tk_dtype dtype, int64_t n) {
    void *elements = malloc((size_t)n * tk_size(dtype) + 1);
    uint32_t drawn = 1;
    for (int64_t i = 0; elements && i < n; i++) {
        drawn = drawn * UINT32_C(1664525) + UINT32_C(1013904223);
        tk_put(elements, dtype, i, (double)(drawn >> 8) * 0x1p-23 - 1);
    }
    return elements;
}

static bool take(lean_case *c, void **out, tk_dtype dtype, int64_t n, const void *filled) {
    const size_t bytes = (size_t)n * tk_size(dtype);
    *out = rt_device_cuda.alloc(c->q, bytes);
    if (*out && filled)
        rt_device_cuda.upload(c->q, *out, filled, bytes);
    return *out != NULL;
}

bool lean_open(lean_case *c, tk_queue *q, tk_dtype dtype, int64_t rows, int64_t n) {
    void *elements = numbers(dtype, rows * n), *floats = numbers(TK_F32, rows);
    bool good = elements && floats;
    *c = (lean_case){.q = q, .table = &tk_table_cuda, .dtype = dtype, .rows = rows, .n = n};
    for (int i = 0; i < LEAN_ELEMENTS; i++)
        good = good && take(c, &c->element[i], dtype, rows * n,
                            i < LEAN_ELEMENTS / 2 || i == LEAN_ELEMENTS - 1 ? elements : NULL);
    for (int i = 0; i < LEAN_COLUMNS; i++)
        good = good && take(c, &c->column[i], dtype, n, i < LEAN_COLUMNS / 2 ? elements : NULL);
    for (int i = 0; i < LEAN_ROWS; i++)
        good = good && take(c, &c->row[i], TK_F32, rows, floats);
    free(elements), free(floats);
    if (!good)
        lean_close(c);
    return good;
}

void lean_close(lean_case *c) {
    for (int i = 0; i < LEAN_ELEMENTS; i++)
        rt_device_cuda.free(c->q, c->element[i]);
    for (int i = 0; i < LEAN_COLUMNS; i++)
        rt_device_cuda.free(c->q, c->column[i]);
    for (int i = 0; i < LEAN_ROWS; i++)
        rt_device_cuda.free(c->q, c->row[i]);
    rt_device_cuda.free(c->q, c->workspace);
    memset(c, 0, sizeof *c);
}

bool lean_prepare(lean_case *c, const lean_kernel *kernel) {
    rt_device_cuda.free(c->q, c->workspace);
    const size_t bytes = kernel->workspace ? kernel->workspace(c) : 0;
    c->workspace = bytes > 0 ? rt_device_cuda.alloc(c->q, bytes) : NULL;
    return bytes == 0 || c->workspace;
}

double lean_bytes(const lean_case *c, const lean_kernel *kernel, int64_t reads) {
    const double element = (double)tk_size(c->dtype);
    return element * (double)c->n *
               ((double)kernel->elements * (double)c->rows + (double)kernel->columns * (double)reads) +
           4.0 * kernel->rows * (double)c->rows;
}
