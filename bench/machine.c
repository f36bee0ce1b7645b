/* machine.c: what this machine can do, for step.py to compare with: the rate of products, the rate of memory, and the
 * time of the products of a step alone, by the product function that tempo-run uses. machine limits [THREADS] one line
 * of JSON machine products TIMES [THREADS]    reads lines `batch m n k transA transB` from standard input, runs them
 * all in order TIMES times and prints the seconds of each time as JSON Operands and results walk through a pool that no
 * cache holds, as those of a step do. */
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_PRODUCTS 65536
#define POOL_BYTES ((size_t)512 << 20)
#define CACHED_BYTES ((size_t)8 << 20)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "machine: no %zu bytes\n", bytes);
        exit(4);
    }
    return memory;
}

/* Small different numbers, so that products stay finite. */
static void fill(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 97) / 97.0f - 0.5f;
}

static void run_product(tk_queue *q, float *out, const float *a, const float *b, tk_product p) {
    p.a_at.step = p.m * p.k;
    p.b_at.step = p.k * p.n;
    tk_product_run(q, out, a, b, &p, TK_F32, NULL);
}

/* --- limits ----------------------------------------------------------------------------------- */

static double product_rate(tk_queue *q) {
    const tk_product p = {.batch = 1, .m = 1024, .n = 1024, .k = 1024, .lda = 1024, .ldb = 1024, .alpha = 1};
    float *x = take(3 * sizeof(float) << 20);
    double best = INFINITY;
    fill(x, (size_t)3 << 20);
    for (int i = 0; i < 20; i++) {
        double start = now();
        run_product(q, x + (2 << 20), x, x + (1 << 20), p);
        best = fmin(best, now() - start);
    }
    free(x);
    return 2.0 * 1024 * 1024 * 1024 / best;
}

typedef struct copy_ctx {
    float *out;
    const float *in;
} copy_ctx;

static void copy_range(void *ctx, tk_share share) {
    const copy_ctx *c = ctx;
    for (int64_t i = share.begin; i < share.end; i++)
        c->out[i] = c->in[i] + 1.0f;
}

/* Bytes read and written in a second by out = in + 1 over `bytes` in all. */
static double memory_rate(tk_queue *q, size_t bytes, int times) {
    int64_t n = (int64_t)(bytes / 2 / sizeof(float));
    float *x = take(bytes);
    double best = INFINITY;
    fill(x, 2 * (size_t)n);
    copy_ctx c = {x + n, x};
    for (int i = 0; i < times; i++) {
        double start = now();
        tk_parallel_for(q, n, TK_GRAIN, copy_range, &c);
        best = fmin(best, now() - start);
    }
    free(x);
    return (double)bytes / best;
}

static void print_limits(tk_queue *q) {
    printf("{\"flops\": %.4g, \"memory\": %.4g, \"cache\": %.4g}\n", product_rate(q), memory_rate(q, POOL_BYTES, 8),
           memory_rate(q, CACHED_BYTES, 50));
}

/* --- products --------------------------------------------------------------------------------- */

static size_t read_products(tk_product *products) {
    long long batch, m, n, k;
    int ta, tb;
    size_t count = 0;
    while (count < MOST_PRODUCTS && scanf("%lld %lld %lld %lld %d %d", &batch, &m, &n, &k, &ta, &tb) == 6)
        products[count++] = (tk_product){.batch = batch,
                                         .m = m,
                                         .n = n,
                                         .k = k,
                                         .lda = ta ? m : k,
                                         .ldb = tb ? k : n,
                                         .trans_a = ta != 0,
                                         .trans_b = tb != 0,
                                         .alpha = 1};
    return count;
}

static size_t elements(const tk_product *p) {
    return (size_t)p->batch * (size_t)(p->m * p->k + p->k * p->n + p->m * p->n);
}

static void run_products(tk_queue *q, const tk_product *products, size_t count, float *pool, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const tk_product *p = &products[i];
        if (at + elements(p) > size)
            at = 0;
        float *a = pool + at, *b = a + p->batch * p->m * p->k, *out = b + p->batch * p->k * p->n;
        run_product(q, out, a, b, *p);
        at += elements(p);
    }
}

static void print_products(tk_queue *q, int times) {
    tk_product *products = take(MOST_PRODUCTS * sizeof *products);
    size_t count = read_products(products), size = POOL_BYTES / sizeof(float);
    for (size_t i = 0; i < count; i++)
        size = elements(&products[i]) > size ? elements(&products[i]) : size;
    float *pool = take(size * sizeof *pool);
    fill(pool, size);
    printf("[");
    for (int i = 0; i < times; i++) {
        double start = now();
        run_products(q, products, count, pool, size);
        printf("%s%.6f", i > 0 ? ", " : "", now() - start);
    }
    printf("]\n");
    free(pool);
    free(products);
}

int main(int argc, char **argv) {
    bool limits = argc >= 2 && strcmp(argv[1], "limits") == 0, products = argc >= 3 && strcmp(argv[1], "products") == 0;
    int threads = argc > 2 + products ? atoi(argv[2 + products]) : 0;
    if (!limits && !products) {
        fputs("usage: machine limits [THREADS] | machine products TIMES [THREADS]\n", stderr);
        return 64;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads > 0 ? threads : (int)cores;
    tk_queue *q = tk_queue_create(threads, threads);
    if (!q)
        return 4;
    if (limits)
        print_limits(q);
    else
        print_products(q, atoi(argv[2]));
    tk_queue_destroy(q);
    return 0;
}
