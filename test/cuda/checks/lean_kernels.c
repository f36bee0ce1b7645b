/* lean_kernels.c: calls of the lean kernels, and operands for them. */
#include "lean_kernels.h"
#include "kernels/attention/attention_map.h"
#include "kernels/common/types.h"
#include "kernels/cuda/table_cuda.h"
#include "runtime/device/device.h"
#include <math.h>
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

/* A link of rows: op ADD of an operand that is repeated after `period` elements, or a draw. */
static tk_link row_link(const lean_case *c, tk_link_op op, const void *operand, int64_t period) {
    return (tk_link){.op = op,
                     .operand = operand,
                     .inner = 1,
                     .period = period,
                     .ratio = {.otherwise = 0.1},
                     .seed = {.pair = c->row[0]}}; /* any bytes are a seed */
}
/* What stands behind a product of post-norm blocks: its bias, a dropout, the residual, and the norm, which keeps
 * x-hat. */
static void bias_dropout_add_norm(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    const tk_chain before = {.first = c->element[0],
                             .n = ELEMENTS(c),
                             .n_links = 3,
                             .dtype = c->dtype,
                             .links = {row_link(c, TK_LINK_ADD, c->column[0], c->n),
                                       row_link(c, TK_LINK_DROPOUT, NULL, 0),
                                       row_link(c, TK_LINK_ADD, c->element[1], ELEMENTS(c))}};
    c->table->norm_chain(c->q, c->element[3], c->element[4], NULL, c->row[1], &before, c->column[0], c->column[1], &s);
}
/* Its gradient: those of the norm's two readers are added; dx goes on to the residual, and dropped to the product. */
static void add_norm_dropout_grad(const lean_case *c) {
    const tk_norm_rows s = norm_rows(c);
    const tk_chain before = {.first = c->element[0],
                             .n = ELEMENTS(c),
                             .n_links = 1,
                             .dtype = c->dtype,
                             .links = {row_link(c, TK_LINK_ADD, c->element[1], ELEMENTS(c))}};
    tk_chain after = {
        .n = ELEMENTS(c), .n_links = 1, .dtype = c->dtype, .links = {row_link(c, TK_LINK_DROPOUT, NULL, 0)}};
    after.links[0].store = c->element[4];
    c->table->norm_grad_chain(c->q, c->element[3], c->column[2], c->column[3], &before, NULL, c->element[2],
                              c->column[0], NULL, c->row[2], &after, &s, c->workspace);
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

static void log_softmax_grad(const lean_case *c) {
    c->table->log_softmax_grad(c->q, c->element[3], c->element[0], c->element[1], softmax_shape(c), c->dtype);
}

/* Attention's map: its rows are those of 16 heads, with a mask of their own each; what is dropped is in P's sign. */
static tk_attention attention_of(const lean_case *c) {
    const int64_t s = c->rows / LEAN_HEADS;
    return (tk_attention){.items = LEAN_HEADS,
                          .s = s,
                          .t = c->n,
                          .mask_at = {.step = s * c->n},
                          .mask_row = c->n,
                          .mask_column = 1,
                          .fill = -INFINITY,
                          .is_signed = true,
                          .dtype = c->dtype};
}
static tk_attention_map map_of(const lean_case *c) { return (tk_attention_map){.scores = c->wide, .p = c->element[3]}; }
static void attention_map(const lean_case *c) {
    const tk_attention a = attention_of(c);
    const tk_attention_map map = map_of(c);
    tk_cuda_attention_map(c->q, &a, (tk_attention_part){0, a.items}, &map);
}
static void attention_map_drop(const lean_case *c) {
    const tk_attention a = attention_of(c);
    tk_attention_map map = map_of(c);
    map.mask = c->byte;
    map.dropped = c->element[4];
    map.ratio = (tk_number){c->ratio, TK_F32, 0};
    map.seed = (tk_seed){c->seed, 1};
    tk_cuda_attention_map(c->q, &a, (tk_attention_part){0, a.items}, &map);
}
static void attention_map_grad(const lean_case *c) {
    const tk_attention a = attention_of(c);
    const tk_attention_map_grad grad = {.dd = c->wide, .p = c->element[0], .ds = c->element[3]};
    tk_cuda_attention_map_grad(c->q, &a, (tk_attention_part){0, a.items}, &grad);
}
static void attention_map_drop_grad(const lean_case *c) {
    const tk_attention a = attention_of(c);
    const tk_attention_map_grad grad = {.dd = c->wide,
                                        .p = c->element[0],
                                        .is_dropped = true,
                                        .ratio = {c->ratio, TK_F32, 0},
                                        .mask = c->byte,
                                        .reached = c->element[3],
                                        .dropped = c->element[4]};
    tk_cuda_attention_map_grad(c->q, &a, (tk_attention_part){0, a.items}, &grad);
}

/* The mean of all rows' losses. */
static tk_loss loss_of(const lean_case *c) {
    return (tk_loss){.batch = c->rows,
                     .classes = c->n,
                     .inner = 1,
                     .reduction = TK_LOSS_MEAN,
                     .has_ignored = true,
                     .ignored = -100,
                     .dtype = c->dtype,
                     .label_dtype = TK_I64};
}
static size_t loss_workspace(const lean_case *c) {
    const tk_loss shape = loss_of(c);
    return c->table->cross_entropy_workspace(&shape);
}
static void loss(const lean_case *c) {
    const tk_loss shape = loss_of(c);
    c->table->cross_entropy(c->q, c->column[2], c->element[3], c->element[0], c->label, NULL, &shape, c->workspace);
}
static size_t loss_grad_workspace(const lean_case *c) {
    const tk_loss shape = loss_of(c);
    return c->table->cross_entropy_grad_workspace(&shape);
}
static void loss_grad(const lean_case *c) {
    const tk_loss shape = loss_of(c);
    c->table->cross_entropy_grad(c->q, c->element[3], c->column[0], c->element[0], c->label, NULL, &shape,
                                 c->workspace);
}

/* Of an embedding that has as many rows as are picked. */
static tk_indices places_of(const lean_case *c) { return (tk_indices){c->place, TK_I64}; }
static void gather(const lean_case *c) {
    c->table->gather(c->q, c->element[3], c->element[0], places_of(c), 1, c->rows, c->n, c->rows, tk_size(c->dtype));
}
static size_t gather_grad_workspace(const lean_case *c) {
    return c->table->gather_grad_workspace(1, c->rows, c->n, c->rows, c->dtype, 1);
}
static void gather_grad(const lean_case *c) {
    c->table->gather_grad(c->q, c->element[3], c->element[0], places_of(c), 1, c->rows, c->n, c->rows, c->dtype,
                          c->workspace);
}

static void to_float(const lean_case *c) {
    c->table->cast(c->q, c->wide, c->element[0], ELEMENTS(c), TK_F32, c->dtype);
}
static void of_float(const lean_case *c) {
    c->table->cast(c->q, c->element[3], c->wide, ELEMENTS(c), c->dtype, TK_F32);
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

/* As of a norm of all gradients. */
static tk_reduction over_all(const lean_case *c) {
    tk_reduction r;
    tk_reduction_init(&r, 2, (const int64_t[2]){c->rows, c->n}, (const bool[2]){true, true});
    return r;
}
static size_t sum_all_workspace(const lean_case *c) {
    const tk_reduction r = over_all(c);
    return c->table->reduce_workspace(&r);
}
static void sum_all(const lean_case *c) {
    const tk_reduction r = over_all(c);
    c->table->reduce(c->q, c->column[2], c->element[0], &r, TK_REDUCE_SUM, c->dtype, c->workspace);
}

const lean_kernel lean_kernels[] = {
    {"gelu", gelu, .elements = 2},
    {"gelu_grad", gelu_grad, .elements = 3},
    {"norm", norm, .elements = 2, .columns = 2, .rows = 2},
    {"norm_xhat", norm_xhat, .elements = 3, .columns = 2, .rows = 1},
    {"scale_bias", scale_bias, .elements = 2, .columns = 2},
    {"norm_xhat_grad", norm_xhat_grad, .workspace = norm_workspace, .elements = 3, .columns = 1, .rows = 1,
     .traffic = 1.5},
    {"norm_grad", norm_grad, .workspace = norm_workspace, .elements = 3, .columns = 1, .rows = 2, .traffic = 1.5},
    {"bias_dropout_add_norm", bias_dropout_add_norm, .elements = 4, .columns = 3, .rows = 1},
    {"add_norm_dropout_grad", add_norm_dropout_grad, .workspace = norm_workspace, .elements = 5, .columns = 1,
     .rows = 1, .traffic = 1.5},
    {"softmax", softmax, .elements = 2},
    {"softmax_grad", softmax_grad, .elements = 3},
    {"log_softmax", log_softmax, .elements = 2},
    {"log_softmax_grad", log_softmax_grad, .elements = 3},
    /* A thread takes 8 scores, a sector of floats, which it reads and writes in two halves: the caches make one of
     * them, and to have the lanes swap halves takes more instructions than that is worth. Each thread reads seed and
     * ratio once, for as many rows as it has. */
    {"attention_map", attention_map, .elements = 1, .wides = 1, .sectors = 2},
    {"attention_map_drop", attention_map_drop, .elements = 2, .wides = 1, .bytes = 1, .traffic = 1.02, .sectors = 2},
    {"attention_map_grad", attention_map_grad, .elements = 2, .wides = 1, .sectors = 2},
    {"attention_map_drop_grad", attention_map_drop_grad, .elements = 3, .wides = 1, .bytes = 1, .sectors = 2},
    {"loss", loss, .workspace = loss_workspace, .elements = 2, .labels = 1},
    /* Each warp reads the label and the gradient of its row beside 512 bytes of it. */
    {"loss_grad", loss_grad, .workspace = loss_grad_workspace, .elements = 2, .labels = 1, .traffic = 1.07},
    {"gather", gather, .elements = 2, .labels = 1},
    /* Indices are sorted, which is nothing beside longer rows. */
    {"gather_grad", gather_grad, .workspace = gather_grad_workspace, .elements = 2, .labels = 1, .traffic = 1.15},
    {"to_float", to_float, .elements = 1, .wides = 1, .halves = true},
    {"of_float", of_float, .elements = 1, .wides = 1, .halves = true},
    {"add", add, .elements = 3},
    {"add_bias", add_bias, .elements = 2, .columns = 1},
    {"dropout", dropout, .elements = 2, .traffic = 1.5},
    {"split_heads", split_heads, .elements = 2},
    {"transpose", transpose, .elements = 2},
    {"sum_rows", sum_rows, .workspace = sum_rows_workspace, .elements = 1, .traffic = 1.05},
    {"sum_all", sum_all, .workspace = sum_all_workspace, .elements = 1},
    {"global_norm", global_norm, .workspace = global_norm_workspace, .elements = 1},
    {"adamw", adamw, .workspace = adamw_workspace, .elements = 7}, /* over its operands, so it comes last */
    {NULL},
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

/* A mask of which a tenth is 0, labels, and places: backwards. */
static bool take_counted(lean_case *c) {
    const int64_t all = ELEMENTS(c), n = c->rows;
    uint8_t *bytes = malloc((size_t)all + 1);
    int64_t *labels = malloc((size_t)n * sizeof *labels + 1), *places = malloc((size_t)n * sizeof *places + 1);
    bool good = bytes && labels && places;
    for (int64_t i = 0; good && i < all; i++)
        bytes[i] = i % 10 != 0;
    for (int64_t i = 0; good && i < n; i++)
        labels[i] = (i * 5 + 1) % c->n, places[i] = n - 1 - i;
    good = good && take(c, &c->byte, TK_BOOL, all, bytes) && take(c, &c->label, TK_I64, n, labels) &&
           take(c, &c->place, TK_I64, n, places);
    free(bytes), free(labels), free(places);
    return good;
}

bool lean_open(lean_case *c, tk_queue *q, tk_dtype dtype, int64_t rows, int64_t n) {
    void *elements = numbers(dtype, rows * n), *floats = numbers(TK_F32, rows * n);
    const int64_t seed[] = {1, 2};
    const float ratio = 0.1f;
    bool good = elements && floats;
    *c = (lean_case){.q = q, .table = &tk_table_cuda, .dtype = dtype, .rows = rows, .n = n};
    for (int i = 0; i < LEAN_ELEMENTS; i++)
        good = good && take(c, &c->element[i], dtype, rows * n,
                            i < LEAN_ELEMENTS / 2 || i == LEAN_ELEMENTS - 1 ? elements : NULL);
    for (int i = 0; i < LEAN_COLUMNS; i++)
        good = good && take(c, &c->column[i], dtype, n, i < LEAN_COLUMNS / 2 ? elements : NULL);
    for (int i = 0; i < LEAN_ROWS; i++)
        good = good && take(c, &c->row[i], TK_F32, rows, floats);
    good = good && take(c, &c->wide, TK_F32, rows * n, floats) && take_counted(c) &&
           take(c, &c->seed, TK_I64, 2, seed) && take(c, &c->ratio, TK_F32, 1, &ratio);
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
    void *const others[] = {c->wide, c->byte, c->label, c->place, c->seed, c->ratio, c->workspace};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        rt_device_cuda.free(c->q, others[i]);
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
           (4.0 * kernel->rows + 8.0 * kernel->labels) * (double)c->rows +
           (4.0 * kernel->wides + kernel->bytes) * (double)ELEMENTS(c);
}
