/* gpu_rates.c: how fast the device copies, multiplies, and runs the lean kernels at the sizes of BERT-Large.
 * gpu_rates [ROWS [WIDTH [TIMES]]]   one JSON object for each measurement: seconds are the median of TIMES runs, each
 * behind the last one, between two events. Operands are numbers, and larger than any cache. */
#include "../../../kernels/table_cuda.h"
#include "../../../runtime/device.h"
#include "../lean_kernels.h"
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
    rt_device_cuda.close(q);
    tc_arena_destroy(arena);
    return good ? 0 : 1;
}
