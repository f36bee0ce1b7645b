/* test_sessions.c: sessions side by side, in host threads and in a team of OpenMP's: each gives the bits that one gives
 * alone, whatever kernels with scratch it runs, and the caller's settings stay as they were. ./check runs it under
 * ThreadSanitizer too, without OpenMP, whose barriers that does not see. */
#define OWN_MAIN
#include "test/unit/cases.h"
#include "runtime/tempo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <math.h>
#include <pthread.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define WORKERS 6
#define RUNS 3
#define ITEMS 8
#define ROWS 64
#define DEPTH 16
#define MATRICES (ITEMS * ROWS * DEPTH)

/* Every kernel with scratch for each thread: attention and its gradient, products and gradients of Gather of 16 bits.
 */
static const char model[] =
    "<ir_version: 10, opset_import: [\"\" : 21, \"ai.tempo\" : 1]>\n"
    "step (float[8,64,16] q, float[8,16,64] k, float[8,64,16] v, int64[64] rows)\n"
    "  => (float[8,64,64] z, float[8,64,16] dq, float[8,16,64] dk, float[8,64,16] dv, float16[8,64,16] dqh,\n"
    "      float16[8,16,64] dkh, float16[8,64,16] dvh, float16[50,512] table)\n"
    "<int64[2] sizes = {50, 512}, int64[2] flat = {64, 512}> {\n"
    "  y, p = ai.tempo.DotProductAttention <scale = 0.25> (q, k, v)\n"
    "  dq, dk, dv = ai.tempo.DotProductAttentionGrad <scale = 0.25> (y, q, k, v, p)\n"
    "  z = MatMul (q, k)\n"
    "  qh = Cast <to = 10> (q) kh = Cast <to = 10> (k) vh = Cast <to = 10> (v)\n"
    "  yh, ph = ai.tempo.DotProductAttention <scale = 0.25> (qh, kh, vh)\n"
    "  dqh, dkh, dvh = ai.tempo.DotProductAttentionGrad <scale = 0.25> (yh, qh, kh, vh, ph)\n"
    "  zh = MatMul (qh, kh)\n"
    "  picked = Reshape (zh, flat)\n"
    "  table = ai.tempo.GatherGrad <axis = 0> (sizes, rows, picked)\n"
    "}\n";

static const char *const names[] = {"z", "dq", "dk", "dv", "dqh", "dkh", "dvh", "table"};
#define NAMES (sizeof names / sizeof names[0])

static char path[] = "/tmp/test_sessionsXXXXXX.onnxt";
static float q[MATRICES], k[MATRICES], v[MATRICES];
static int64_t rows[ROWS];

/* One session's outputs, one behind the other, and what went wrong: a worker's thread can't fail a test by itself. */
typedef struct worker {
    int threads;
    unsigned char *bytes;
    size_t size;
    char message[200];
} worker;

static tempo_status bind_all(tempo_session *s) {
    static const int64_t wide[] = {ITEMS, ROWS, DEPTH}, high[] = {ITEMS, DEPTH, ROWS}, list[] = {ROWS};
    const struct {
        const char *name;
        tempo_tensor tensor;
    } inputs[] = {{"q", {TEMPO_FLOAT, 3, wide, q, sizeof q}},
                  {"k", {TEMPO_FLOAT, 3, high, k, sizeof k}},
                  {"v", {TEMPO_FLOAT, 3, wide, v, sizeof v}},
                  {"rows", {TEMPO_INT64, 1, list, rows, sizeof rows}}};
    tempo_status status = TEMPO_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && status == TEMPO_OK; i++)
        status = tempo_bind(s, inputs[i].name, &inputs[i].tensor);
    return status;
}

static tempo_status keep_outputs(tempo_session *s, worker *w) {
    tempo_status status = TEMPO_OK;
    w->size = 0;
    for (size_t i = 0; i < NAMES && status == TEMPO_OK; i++) {
        tempo_tensor tensor = {0};
        status = tempo_output(s, names[i], &tensor);
        w->bytes = realloc(w->bytes, w->size + tensor.bytes);
        memcpy(w->bytes + w->size, tensor.data, tensor.bytes);
        w->size += tensor.bytes;
    }
    return status;
}

static void *work(void *worker_) {
    worker *w = worker_;
    tempo_session *s;
    tempo_status status = tempo_open(path, &(tempo_options){.threads = w->threads}, &s);
    if (status == TEMPO_OK)
        status = bind_all(s);
    for (int i = 0; i < RUNS && status == TEMPO_OK; i++)
        status = tempo_run(s);
    if (status == TEMPO_OK)
        status = keep_outputs(s, w);
    if (status != TEMPO_OK)
        snprintf(w->message, sizeof w->message, "%s", tempo_message(s));
    tempo_close(s);
    return NULL;
}

static void expect_same(worker *w, const worker *alone) {
    assert_string_equal(w->message, "");
    assert_int_equal(w->size, alone->size);
    assert_memory_equal(w->bytes, alone->bytes, alone->size);
    free(w->bytes);
}

static int write_model(void **state) {
    static worker alone = {.threads = 1};
    uint32_t random = 7;
    int fd = mkstemps(path, 6);
    FILE *file = fdopen(fd, "w");
    fputs(model, file);
    fclose(file);
    for (int i = 0; i < MATRICES; i++) {
        float *const of[] = {q, k, v};
        for (int j = 0; j < 3; j++) {
            random = random * 1664525u + 1013904223u;
            of[j][i] = (float)(random >> 8) / 8388608.0f - 1.0f;
        }
    }
    for (int i = 0; i < ROWS; i++)
        rows[i] = i * 7 % 50;
    work(&alone);
    *state = &alone;
    return strcmp(alone.message, "");
}

static int remove_model(void **state) {
    free(((worker *)*state)->bytes);
    return unlink(path);
}

/* The bits that the others are held to are those of a product. */
TEST(alone) {
    const float *z = (const float *)((worker *)*test_state)->bytes;
    for (int at = 0; at < ITEMS * ROWS * ROWS; at++) {
        int item = at / (ROWS * ROWS), i = at / ROWS % ROWS, j = at % ROWS;
        double exact = 0;
        for (int d = 0; d < DEPTH; d++)
            exact += (double)q[(item * ROWS + i) * DEPTH + d] * (double)k[(item * DEPTH + d) * ROWS + j];
        assert_true(fabs((double)z[at] - exact) < 1e-5);
    }
}

TEST(host_threads) {
    worker workers[WORKERS] = {0};
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i].threads = 1;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        expect_same(&workers[i], *test_state);
}

#ifdef _OPENMP
/* A team of six, each with a session of `threads` threads. */
static void run_team(const worker *alone, int threads) {
    worker workers[WORKERS] = {0};
#pragma omp parallel for schedule(static, 1) num_threads(WORKERS)
    for (int i = 0; i < WORKERS; i++) {
        workers[i].threads = threads;
        work(&workers[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        expect_same(&workers[i], alone);
}

TEST(team) {
    run_team(*test_state, 1);
    run_team(*test_state, 3);
}

/* Sessions' teams within the team, as far as OpenMP has threads. */
TEST(nested_teams) {
    int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(3);
    run_team(*test_state, 1);
    run_team(*test_state, 2);
    omp_set_max_active_levels(levels);
}

TEST(settings_stay) {
    int before = omp_get_max_threads();
    for (int threads = 1; threads <= 2; threads++) {
        worker w = {.threads = threads};
        omp_set_num_threads(5);
        work(&w);
        assert_int_equal(omp_get_max_threads(), 5);
        expect_same(&w, *test_state);
    }
    omp_set_num_threads(before);
}
#endif

int main(void) { return run_all_tests(write_model, remove_model); }
