/* test_double_sorts.c: sorts and sums of CUB's double against the C library's sort and plain loops, queued and
 * recorded, and what they find wrong. */
#include "test/unit/cases.h"
#include "cuda_work.h"
#include "kernels/cuda/cub.h"
#include <stdlib.h>
#include <string.h>

#define OK(call) assert_int_equal(call, cudaSuccess)
enum { MOST = 3001 };

static tk_cuda cuda;
static void *workspace;
static uint64_t keys[MOST], numbers[MOST];

static int set_up(void **state) {
    (void)state;
    emu_quiet = true;
    cuda = (tk_cuda){.error = cudaSuccess};
    OK(cudaStreamCreateWithFlags(&cuda.stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&workspace, tk_sort_workspace(MOST)));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    emu_reset_device();
    OK(cudaFree(workspace));
    OK(cudaStreamDestroy(cuda.stream));
    return 0;
}

/* Keys of few different values, so that many are equal. */
static void draw(uint64_t *to, int64_t n, int bits) {
    static uint64_t drawn = 1;
    for (int64_t i = 0; i < n; i++) {
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        const uint64_t few = (drawn >> 33) % 50 * 0x51eb851eb851eb8;
        to[i] = bits == 0 ? 0 : few >> (64 - bits);
    }
}

static void upload(void *to, const void *from, int64_t n) {
    OK(cudaMemcpyAsync(to, from, (size_t)n * sizeof(uint64_t), cudaMemcpyHostToDevice, cuda.stream));
}

static void download(void *to, const void *from, int64_t n) {
    OK(cudaMemcpyAsync(to, from, (size_t)n * sizeof(uint64_t), cudaMemcpyDeviceToHost, cuda.stream));
}

static int by_key_and_place(const void *a, const void *b) {
    const uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
    return keys[i] != keys[j] ? (keys[i] > keys[j] ? 1 : -1) : (i > j) - (i < j);
}

/* The keys, each with its place. */
static void upload_pairs(tk_pairs pairs, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (uint64_t)i;
    upload(pairs.keys, keys, n);
    upload(pairs.values, numbers, n);
}

static void expect_sorted(tk_pairs sorted, int64_t n) {
    static uint64_t got_keys[MOST], got[MOST];
    download(got_keys, sorted.keys, n);
    download(got, sorted.values, n);
    OK(cudaStreamSynchronize(cuda.stream));
    qsort(numbers, (size_t)n, sizeof *numbers, by_key_and_place);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(got[i], numbers[i]);
        assert_int_equal(got_keys[i], keys[numbers[i]]);
    }
}

/* --- sorts ------------------------------------------------------------------------------------ */

TEST_WITH(sorts, set_up, tear_down) {
    static const int64_t sizes[] = {0, 1, 2, 7, 1000, MOST};
    static const int bits[] = {0, 1, 8, 33, 63, 64};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t b = 0; b < 2 * sizeof bits / sizeof *bits; b++) {
            const int64_t n = sizes[s];
            tk_pairs pairs = tk_sort_pairs(workspace, n);
            pairs = b % 2 ? tk_sort_other(workspace, n, pairs) : pairs;
            draw(keys, n, bits[b / 2]);
            upload_pairs(pairs, n);
            expect_sorted(tk_sort(&cuda, workspace, pairs, n, bits[b / 2]), n);
        }
    assert_int_equal(emu_findings(), 0);
}

TEST_WITH(recorded, set_up, tear_down) {
    const tk_pairs pairs = tk_sort_pairs(workspace, MOST);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(cuda.stream, cudaStreamCaptureModeGlobal));
    const tk_pairs sorted = tk_sort(&cuda, workspace, pairs, MOST, 20);
    OK(cudaStreamEndCapture(cuda.stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int run = 0; run < 2; run++) {
        draw(keys, MOST, 20);
        upload_pairs(pairs, MOST);
        OK(cudaGraphLaunch(exec, cuda.stream));
        expect_sorted(sorted, MOST);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    assert_int_equal(emu_findings(), 0);
}

TEST_WITH(wrong_sorts, set_up, tear_down) {
    tk_pairs pairs = tk_sort_pairs(workspace, 10);
    draw(keys, 10, 64);
    upload(pairs.keys, keys, 10);
    upload(pairs.values, keys, 9);
    tk_sort(&cuda, workspace, pairs, 10, 64);
    cudaStreamSynchronize(cuda.stream);
    assert_true(emu_complained("values"));
    emu_reset_device();
    keys[3] = 16;
    upload_pairs(pairs, 10);
    tk_sort(&cuda, workspace, pairs, 10, 4);
    cudaStreamSynchronize(cuda.stream);
    assert_true(emu_complained("key 0 has more than 4 bits") || emu_complained("key 3 has more than 4 bits"));
    emu_reset_device();
    draw(keys, 10, 4);
    emu_declare(cuda.stream, &(emu_span){workspace, tk_sort_workspace(10) - 1, true}, 1);
    upload_pairs(pairs, 10);
    tk_sort(&cuda, workspace, pairs, 10, 4);
    cudaStreamSynchronize(cuda.stream);
    assert_true(emu_complained("room"));
}

/* --- sums ------------------------------------------------------------------------------------- */

TEST_WITH(sums, set_up, tear_down) {
    static uint64_t got[MOST];
    uint64_t *numbers_there = workspace;
    for (int64_t n = 0; n <= MOST; n = 2 * n + 1) {
        uint64_t sum = 0;
        draw(keys, n, 64);
        upload(numbers_there, keys, n);
        tk_sums_before(&cuda, numbers_there, n, numbers_there + MOST);
        download(got, numbers_there, n);
        OK(cudaStreamSynchronize(cuda.stream));
        for (int64_t i = 0; i < n; sum += keys[i++])
            assert_int_equal(got[i], sum);
    }
    assert_int_equal(emu_findings(), 0);
}

TEST_WITH(wrong_sums, set_up, tear_down) {
    uint64_t *numbers_there = workspace;
    draw(keys, 10, 64);
    upload(numbers_there, keys, 10);
    emu_declare(cuda.stream, &(emu_span){workspace, 80, true}, 1);
    tk_sums_before(&cuda, numbers_there, 10, numbers_there + 10);
    cudaStreamSynchronize(cuda.stream);
    assert_true(emu_complained("room"));
    emu_reset_device();
    tk_sums_before(&cuda, numbers_there, 11, numbers_there + 11);
    cudaStreamSynchronize(cuda.stream);
    assert_true(emu_complained("numbers"));
}
