/* gpu_rates.c: how fast the device copies, multiplies, attends, and runs the lean kernels at the sizes of BERT-Large,
 * and convolutions at those of image models, by cuDNN, where it is, and as products of patches. gpu_rates [ROWS [WIDTH
 * [TIMES]]]   one JSON object for each measurement: seconds are the median of TIMES runs, each behind the last one,
 * between two events. Operands are numbers, and larger than any cache. */
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/table_cuda.h"
#include "runtime/device/device.h"
#include "test/cuda/checks/lean_kernels.h"
#include <stdio.h>
#include <stdlib.h>

enum { WARM = 3, MOST_TIMES = 200 };

static int times = 20;

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of one call, the median; below 0: the device failed, which was told. */
static double timed(tk_queue *q, void (*call)(const void *what), const void *what) {
    double moments[MOST_TIMES + 1], seconds[MOST_TIMES];
    uint32_t launch;
    for (int i = 0; i < WARM; i++)
        call(what);
    for (int i = 0; i <= times; i++) {
        rt_device_cuda.mark(q, (uint32_t)i);
        if (i < times)
            call(what);
    }
    const tk_status status = rt_device_cuda.wait(q, &launch);
    if (status != TK_OK) {
        fprintf(stderr, "gpu_rates: fault %d: %s\n", (int)status, rt_device_cuda.failure(q));
        return -1;
    }
    for (int i = 0; i <= times; i++)
        moments[i] = i > 0 ? rt_device_cuda.marked(q, (uint32_t)i) : 0;
    for (int i = 0; i < times; i++)
        seconds[i] = moments[i + 1] - moments[i];
    qsort(seconds, (size_t)times, sizeof *seconds, by_size);
    return seconds[times / 2];
}

static const char *name_of(tk_dtype dtype) {
    return dtype == TK_F32 ? "float" : dtype == TK_F16 ? "float16" : "bfloat16";
}

/* --- kernels and copies ------------------------------------------------------------------------- */

typedef struct lean_call {
    const lean_case *c;
    const lean_kernel *kernel;
} lean_call;

static void run_lean(const void *what) {
    const lean_call *call = what;
    call->kernel->run(call->c);
}

static void copy(const void *what) {
    const lean_case *c = what;
    c->table->copy(c->q, c->element[LEAN_ELEMENTS - 1], c->element[0], (size_t)(c->rows * c->n) * tk_size(c->dtype));
}

static void tell(const char *kind, const char *name, tk_dtype dtype, double amount, double seconds) {
    printf("{\"kind\": \"%s\", \"name\": \"%s\", \"type\": \"%s\", \"amount\": %.0f, \"seconds\": %.9g}\n", kind, name,
           name_of(dtype), amount, seconds);
    fflush(stdout);
}

static bool tell_kernels(tk_queue *q, tk_dtype dtype, int64_t rows, int64_t n) {
    lean_case c;
    bool good = lean_open(&c, q, dtype, rows, n);
    if (good)
        tell("copy", "copy", dtype, 2.0 * (double)(rows * n) * (double)tk_size(dtype), timed(q, copy, &c));
    for (const lean_kernel *kernel = lean_kernels; good && kernel->name; kernel++) {
        if (kernel->halves && !tk_is_half(dtype))
            continue;
        good = lean_prepare(&c, kernel);
        if (good)
            tell("kernel", kernel->name, dtype, lean_bytes(&c, kernel, 1),
                 timed(q, run_lean, &(lean_call){&c, kernel}));
    }
    lean_close(&c);
    return good;
}

/* --- products ----------------------------------------------------------------------------------- */

typedef struct product_call {
    const lean_case *c;
    const tk_product *product;
} product_call;

static void run_product(const void *what) {
    const product_call *call = what;
    const lean_case *c = call->c;
    c->table->product_run(c->q, c->element[3], c->element[0], c->element[1], call->product, c->dtype, NULL);
}

/* Products of an encoder layer of width h over its tokens, and a large square one; [m, n, k] each. */
static bool tell_products(tk_queue *q, tk_dtype dtype, int64_t tokens, int64_t h) {
    const int64_t sizes[][3] = {{tokens, h, h}, {tokens, 4 * h, h}, {tokens, h, 4 * h}, {8 * h, 8 * h, 8 * h}};
    lean_case c;
    bool good = lean_open(&c, q, dtype, tokens > 16 * h ? tokens : 16 * h, 4 * h);
    for (size_t i = 0; good && i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        const tk_product p = {.batch = 1, .m = m, .n = n, .k = k, .lda = k, .ldb = n, .alpha = 1};
        char name[80];
        snprintf(name, sizeof name, "%lld x %lld x %lld", (long long)m, (long long)n, (long long)k);
        tell("product", name, dtype, 2.0 * (double)m * (double)n * (double)k,
             timed(q, run_product, &(product_call){&c, &p}));
    }
    lean_close(&c);
    return good;
}

/* --- attention ---------------------------------------------------------------------------------- */

enum { HEAD = 64 };

typedef struct attention_call {
    const lean_case *c;
    tk_attention a;
    tk_seed seed;
    void *statistics; /* behind the workspace: as forward left them */
} attention_call;

static const tk_number tenth = {NULL, TK_F64, 0.1};

static tk_attention_operands operands_of(const lean_case *c) {
    return (tk_attention_operands){c->element[0], c->element[1], c->element[2], NULL, NULL};
}
static tk_attention_groups groups_of(const tk_attention *a) {
    return (tk_attention_groups){.groups = a->items, .members = 1, .group_at = {.step = 1}};
}

static void attend(const void *what) {
    const attention_call *call = what;
    const lean_case *c = call->c;
    c->table->attention_run(c->q, (tk_attention_results){.y = c->element[3], .statistics = call->statistics},
                            operands_of(c), &call->a, tenth, call->seed, c->workspace);
}

static void attend_back(const void *what) {
    const attention_call *call = what;
    const lean_case *c = call->c;
    const tk_attention_groups groups = groups_of(&call->a);
    const tk_attention_after after = {.dout = c->element[0], .y = c->element[1], .statistics = call->statistics};
    c->table->attention_tiled_grad(c->q, (tk_attention_gradients){c->element[3], c->element[4], c->element[5], NULL},
                                   after, operands_of(c), &call->a, &groups, tenth, call->seed, c->workspace);
}

/* Heads of a layer of width h over its tokens, in sequences of `s`; operations as they are counted for attention: two
 * products forward, five backward. */
static bool tell_attention(tk_queue *q, tk_dtype dtype, int64_t tokens, int64_t h, int64_t s) {
    lean_case c;
    tk_attention a = {
        .items = tokens / s * (h / HEAD), .s = s, .t = s, .d = HEAD, .e = HEAD, .scale = 0.125, .dtype = dtype};
    tk_attention_dense(&a);
    const double product = 2.0 * (double)a.items * (double)s * (double)s * HEAD;
    const tk_attention_groups groups = groups_of(&a);
    bool good = lean_open(&c, q, dtype, tokens, h);
    const size_t forward = good ? c.table->attention_workspace(&a, 1) : 0,
                 back = good ? c.table->attention_tiled_grad_workspace(&a, &groups, 1) : 0,
                 scratch = ((forward > back ? forward : back) + 255) / 256 * 256,
                 kept = (size_t)(a.items * s * 2) * tk_size(tk_wide(dtype));
    good = good && (c.workspace = rt_device_cuda.alloc(q, scratch + kept)) != NULL;
    for (int drops = 0; good && drops < 2; drops++) {
        const attention_call call = {&c, a, {drops ? c.row[0] : NULL, 5}, (char *)c.workspace + scratch};
        char name[80];
        snprintf(name, sizeof name, "forward, %lld%s", (long long)s, drops ? ", dropped" : "");
        tell("attention", name, dtype, 2 * product, timed(q, attend, &call));
        snprintf(name, sizeof name, "backward, %lld%s", (long long)s, drops ? ", dropped" : "");
        tell("attention", name, dtype, 5 * product, timed(q, attend_back, &call));
    }
    lean_close(&c);
    return good;
}

/* --- convolutions ------------------------------------------------------------------------------- */

typedef struct conv_call {
    const lean_case *c;
    tk_conv conv;
    bool back; /* the transposed one */
    int weight;
} conv_call;

static void convolve(const void *what) {
    const conv_call *call = what;
    const lean_case *c = call->c;
    (call->back ? c->table->conv_transpose_run : c->table->conv_run)(
        c->q, c->element[3], c->element[0], c->element[call->weight], NULL, &call->conv, c->dtype, c->workspace);
}

static bool tell_conv(lean_case *c, const char *which, const conv_call *call, double operations) {
    const size_t bytes = call->back ? c->table->conv_transpose_workspace(&call->conv, c->dtype, 1)
                                    : c->table->conv_workspace(&call->conv, c->dtype, 1);
    tk_cuda *cuda = tk_queue_cuda(c->q);
    c->workspace = bytes > 0 ? rt_device_cuda.alloc(c->q, bytes) : NULL;
    if (bytes > 0 && !c->workspace)
        return false;
    for (int patches = 0; patches < 2; patches++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", which, patches ? ", patches" : "");
        cuda->no_cudnn = patches;
        tell("conv", name, c->dtype, operations, timed(c->q, convolve, call));
    }
    cuda->no_cudnn = false;
    rt_device_cuda.free(c->q, c->workspace);
    c->workspace = NULL;
    return true;
}

/* A layer of 3 x 3 over images of `size` by `size`, with as many filters as the stride times its channels: forward, the
 * gradient of data, and that of filters as the passes write it, batch and channels in each other's place. */
static bool tell_layer(lean_case *c, int64_t images, int64_t channels, int64_t size, int64_t stride) {
    const int64_t out = (size - 1) / stride + 1, filters = stride * channels, tail = (out - 1) * stride + 2 - size;
    const tk_conv layer = {
        images,
        channels,
        filters,
        1,
        {{1, size, size}, {1, out, out}, {1, 3, 3}, {1, stride, stride}, {1, 1, 1}, {0, 1, 1}, {0, tail, tail}}};
    const tk_conv gradient = {
        channels,
        images,
        filters,
        1,
        {{1, size, size}, {1, 3, 3}, {1, out, out}, {1, 1, 1}, {1, stride, stride}, {0, 1, 1}, {0, tail, tail}}};
    const conv_call calls[] = {{c, layer, false, 1}, {c, layer, true, 1}, {c, gradient, false, 2}};
    static const char *const names[] = {"forward", "of data", "of filters"};
    const double operations = 18.0 * (double)(images * channels * filters) * (double)(out * out);
    for (int i = 0; i < 3; i++) {
        char which[80];
        snprintf(which, sizeof which, "%s, %lld to %lld, %lld", names[i], (long long)channels, (long long)filters,
                 (long long)size);
        if (!tell_conv(c, which, &calls[i], operations))
            return false;
    }
    return true;
}

/* Layers of a residual network of 50 layers, where n is 1024. */
static bool tell_convs(tk_queue *q, tk_dtype dtype, int64_t rows, int64_t n) {
    const int64_t images = rows / 2048 > 0 ? rows / 2048 : 1;
    lean_case c;
    bool good = lean_open(&c, q, dtype, rows, n);
    for (int64_t channels = n / 16, size = n >= 1024 ? 56 : 8; good && channels <= n / 4; channels *= 2, size /= 2)
        good = tell_layer(&c, images, channels, size, 1) && tell_layer(&c, images, channels, size, 2);
    lean_close(&c);
    return good;
}

/* --- all ---------------------------------------------------------------------------------------- */

int main(int argc, char **argv) {
    static const tk_dtype types[] = {TK_BF16, TK_F16, TK_F32};
    const int64_t rows = argc > 1 ? atoll(argv[1]) : 65536, n = argc > 2 ? atoll(argv[2]) : 1024;
    times = argc > 3 && atoi(argv[3]) > 0 && atoi(argv[3]) <= MOST_TIMES ? atoi(argv[3]) : times;
    tc_arena *arena = tc_arena_create();
    tc_ctx ctx = {.arena = arena, .tool = "gpu_rates", .file = ""};
    tk_queue *q = rt_device_cuda.open(1, 1);
    bool good = rt_device_cuda.start(&ctx, q, 0) == TC_OK;
    tc_diags_print(&ctx, stderr);
    for (size_t t = 0; good && t < sizeof types / sizeof *types; t++)
        good = tell_kernels(q, types[t], rows, n);
    for (size_t t = 0; good && tk_table_cuda.product_run && t < sizeof types / sizeof *types; t++)
        good = tell_products(q, types[t], rows / 4, n);
    for (size_t t = 0; good && tk_table_cuda.attention_run && t < sizeof types / sizeof *types; t++)
        for (int64_t s = 128; good && s <= 512 && s <= rows / 4; s *= 4)
            good = tell_attention(q, types[t], rows / 4, n, s);
    for (size_t t = 0; good && tk_table_cuda.conv_run && t < sizeof types / sizeof *types; t++)
        good = tell_convs(q, types[t], rows, n);
    rt_device_cuda.close(q);
    tc_arena_destroy(arena);
    return good ? 0 : 1;
}
