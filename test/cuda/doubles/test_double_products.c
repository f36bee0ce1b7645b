/* test_double_products.c: products of the cuBLASLt double against plain loops over rows and columns, and what it
 * refuses. Operands are small integers, so that every type holds every sum exactly. */
#include "test/unit/cases.h"
#include "cublaslt_double.h"
#include "cuda_work.h"
#include "double_elements.h"
#include <stdlib.h>
#include <string.h>

#define OK(call) assert_int_equal(call, 0)

static cudaStream_t stream;
static cublasLtHandle_t handle;
static void *workspace;
enum { WORKSPACE = 8192 };

static int set_up(void **state) {
    (void)state;
    emu_quiet = true;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cublasLtCreate(&handle));
    OK(cudaMalloc(&workspace, WORKSPACE));
    OK(cudaMemset(workspace, 0, WORKSPACE));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    emu_reset_device();
    OK(cudaFree(workspace));
    OK(cublasLtDestroy(handle));
    OK(cudaStreamDestroy(stream));
    return 0;
}

static double get(const void *p, int32_t type, size_t i) { return double_get(p, type, (int64_t)i); }
static void set(void *p, int32_t type, size_t i, double v) { double_put(p, type, (int64_t)i, v); }

/* --- matrices --------------------------------------------------------------------------------- */

typedef struct matrix {
    cudaDataType_t type;
    uint64_t rows, cols, ld;
    int batch;
    bool by_row;
    size_t n; /* elements in all, with what lies between columns and matrices */
    void *host, *device;
    cublasLtMatrixLayout_t layout;
} matrix;

static size_t stride_of(const matrix *m) { return m->ld * (m->by_row ? m->rows : m->cols) + 3; }
static size_t index_of(const matrix *m, int batch, uint64_t row, uint64_t col) {
    return (size_t)batch * stride_of(m) + (m->by_row ? row * m->ld + col : col * m->ld + row);
}

static void set_layout(matrix *m, cublasLtMatrixLayoutAttribute_t what, const void *value, size_t bytes) {
    OK(cublasLtMatrixLayoutSetAttribute(m->layout, what, value, bytes));
}

/* Its elements from -2 to 2; what lies between them is never written on the device. */
static matrix make_matrix(cudaDataType_t type, uint64_t rows, uint64_t cols, int batch, bool by_row, bool filled) {
    static uint32_t drawn = 1;
    matrix m = {type, rows, cols, (by_row ? cols : rows) + 2, batch, by_row, 0, NULL, NULL, NULL};
    const int64_t stride = (int64_t)stride_of(&m);
    const int32_t order = by_row;
    m.n = stride_of(&m) * (size_t)batch;
    m.host = calloc(m.n, double_size(type));
    OK(cudaMalloc(&m.device, m.n * double_size(type)));
    OK(cublasLtMatrixLayoutCreate(&m.layout, type, rows, cols, (int64_t)m.ld));
    set_layout(&m, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    set_layout(&m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    set_layout(&m, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    for (int b = 0; filled && b < batch; b++)
        for (uint64_t i = 0; i < rows * cols; i++) {
            const size_t at = index_of(&m, b, i % rows, i / rows);
            drawn = drawn * 1664525 + 1013904223;
            set(m.host, type, at, (int)(drawn >> 24) % 5 - 2);
            OK(cudaMemcpyAsync((char *)m.device + at * double_size(type), (char *)m.host + at * double_size(type),
                               double_size(type), cudaMemcpyHostToDevice, stream));
        }
    OK(cudaStreamSynchronize(stream));
    return m;
}

static void free_matrix(matrix *m) {
    OK(cublasLtMatrixLayoutDestroy(m->layout));
    OK(cudaFree(m->device));
    free(m->host);
}

/* Element by element: what lies between was not written. */
static void fetch(matrix *m) {
    for (int b = 0; b < m->batch; b++)
        for (uint64_t i = 0; i < m->rows * m->cols; i++) {
            const size_t at = index_of(m, b, i % m->rows, i / m->rows) * double_size(m->type);
            OK(cudaMemcpyAsync((char *)m->host + at, (char *)m->device + at, double_size(m->type),
                               cudaMemcpyDeviceToHost, stream));
        }
    OK(cudaStreamSynchronize(stream));
}

/* --- products --------------------------------------------------------------------------------- */

typedef struct product {
    matrix a, b, c, d;
    bool trans_a, trans_b;
    uint64_t m, n, k;
    double alpha, beta;
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t wishes;
    cublasLtMatmulHeuristicResult_t found;
} product;

static void set_op(product *p, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes) {
    OK(cublasLtMatmulDescSetAttribute(p->desc, what, value, bytes));
}

static bool is_double(const product *p) { return p->a.type == CUDA_R_64F; }

static product make_product(cudaDataType_t type, cudaDataType_t result, bool trans_a, bool trans_b, int batch,
                            uint64_t k) {
    const uint64_t m = 5, n = 4, workspace_bytes = WORKSPACE;
    product p = {.trans_a = trans_a, .trans_b = trans_b, .m = m, .n = n, .k = k, .alpha = 2, .beta = 3};
    const cublasOperation_t op_a = trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    p.a = make_matrix(type, trans_a ? k : m, trans_a ? m : k, batch, false, true);
    p.b = make_matrix(type, trans_b ? n : k, trans_b ? k : n, batch, false, true);
    p.c = make_matrix(result, m, n, batch, false, true);
    p.d = make_matrix(result, m, n, batch, false, false);
    OK(cublasLtMatmulDescCreate(&p.desc, type == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F));
    set_op(&p, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    set_op(&p, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    OK(cublasLtMatmulPreferenceCreate(&p.wishes));
    OK(cublasLtMatmulPreferenceSetAttribute(p.wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                            sizeof workspace_bytes));
    return p;
}

static void free_product(product *p) {
    free_matrix(&p->a);
    free_matrix(&p->b);
    free_matrix(&p->c);
    free_matrix(&p->d);
    OK(cublasLtMatmulPreferenceDestroy(p->wishes));
    OK(cublasLtMatmulDescDestroy(p->desc));
}

static cublasStatus_t choose(product *p) {
    int n = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, p->desc, p->a.layout, p->b.layout, p->c.layout,
                                                                 p->d.layout, p->wishes, 1, &p->found, &n);
    assert_int_equal(n, status == CUBLAS_STATUS_SUCCESS);
    return status;
}

static cublasStatus_t multiply_into(product *p, const matrix *c, const matrix *d) {
    const float narrow[] = {(float)p->alpha, (float)p->beta};
    return cublasLtMatmul(handle, p->desc, is_double(p) ? (const void *)&p->alpha : &narrow[0], p->a.device,
                          p->a.layout, p->b.device, p->b.layout, is_double(p) ? (const void *)&p->beta : &narrow[1],
                          c->device, c->layout, d->device, d->layout, &p->found.algo, workspace, p->found.workspaceSize,
                          stream);
}

static cublasStatus_t multiply(product *p) { return multiply_into(p, &p->c, &p->d); }

static double element_a(const product *p, int batch, uint64_t i, uint64_t x) {
    return get(p->a.host, p->a.type, p->trans_a ? index_of(&p->a, batch, x, i) : index_of(&p->a, batch, i, x));
}
static double element_b(const product *p, int batch, uint64_t x, uint64_t j) {
    return get(p->b.host, p->b.type, p->trans_b ? index_of(&p->b, batch, j, x) : index_of(&p->b, batch, x, j));
}

/* The plain loop. */
static double expected(const product *p, int batch, uint64_t i, uint64_t j) {
    double sum = 0;
    for (uint64_t x = 0; x < p->k; x++)
        sum += element_a(p, batch, i, x) * element_b(p, batch, x, j);
    return p->alpha * sum + p->beta * get(p->c.host, p->c.type, index_of(&p->c, batch, i, j));
}

static void check(const product *p, const matrix *d) {
    for (int b = 0; b < d->batch; b++)
        for (uint64_t i = 0; i < p->m; i++)
            for (uint64_t j = 0; j < p->n; j++)
                assert_true(get(d->host, d->type, index_of(d, b, i, j)) == expected(p, b, i, j));
}

TEST_WITH(values, set_up, tear_down) {
    static const cudaDataType_t types[][2] = {{CUDA_R_32F, CUDA_R_32F},   {CUDA_R_64F, CUDA_R_64F},
                                              {CUDA_R_16F, CUDA_R_16F},   {CUDA_R_16F, CUDA_R_32F},
                                              {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int how = 0; how < 4; how++)
            for (int batch = 1; batch <= 3; batch += 2) {
                product p = make_product(types[t][0], types[t][1], how & 1, how & 2, batch, 6);
                OK(choose(&p));
                OK(multiply(&p));
                fetch(&p.d);
                check(&p, &p.d);
                OK(multiply_into(&p, &p.c, &p.c)); /* D is C */
                matrix sum = p.c;
                sum.host = calloc(sum.n, double_size(sum.type));
                fetch(&sum);
                check(&p, &sum);
                free(sum.host);
                free_product(&p);
            }
    assert_int_equal(emu_findings(), 0);
}

/* Row by row is the transpose column by column. */
TEST_WITH(rows, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, true, false, 2, 7);
    free_matrix(&p.a);
    free_matrix(&p.d);
    free_matrix(&p.c);
    p.a = make_matrix(CUDA_R_32F, p.k, p.m, 2, true, true);
    p.c = make_matrix(CUDA_R_32F, p.m, p.n, 2, true, true);
    p.d = make_matrix(CUDA_R_32F, p.m, p.n, 2, true, false);
    OK(choose(&p));
    OK(multiply(&p));
    fetch(&p.d);
    check(&p, &p.d);
    free_product(&p);
}

/* Sums of many numbers that no float holds exactly: near those in double, and the same bits every time. */
TEST_WITH(long_sums, set_up, tear_down) {
    float first[20];
    for (int time = 0; time < 2; time++) {
        product p = make_product(CUDA_R_32F, CUDA_R_32F, false, true, 1, 1000);
        for (size_t i = 0; i < p.a.n; i++)
            ((float *)p.a.host)[i] = sinf((float)i);
        for (size_t i = 0; i < p.b.n; i++)
            ((float *)p.b.host)[i] = cosf((float)i);
        OK(cudaMemcpy(p.a.device, p.a.host, p.a.n * sizeof(float), cudaMemcpyHostToDevice));
        OK(cudaMemcpy(p.b.device, p.b.host, p.b.n * sizeof(float), cudaMemcpyHostToDevice));
        p.beta = 0;
        OK(choose(&p));
        OK(multiply(&p));
        fetch(&p.d);
        for (uint64_t i = 0; i < 20; i++) {
            const float v = ((float *)p.d.host)[index_of(&p.d, 0, i % 5, i / 5)];
            assert_true(fabs((double)v - expected(&p, 0, i % 5, i / 5)) < 1e-4);
            if (time == 0)
                first[i] = v;
            assert_memory_equal(&v, &first[i], sizeof v);
        }
        free_product(&p);
    }
}

TEST_WITH(tf32, set_up, tear_down) {
    const float a[] = {1 + 0x1p-10f, 1 + 0x1p-11f, 1 + 0x1p-12f, -1 - 0x1p-11f, INFINITY};
    const float in_tf32[] = {1 + 0x1p-10f, 1 + 0x1p-10f, 1, -1 - 0x1p-10f, INFINITY};
    for (int fast = 0; fast < 2; fast++) {
        product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 1);
        const int32_t compute = fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
        const float one[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        set_op(&p, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof compute);
        OK(cudaMemcpy(p.a.device, a, sizeof a, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(p.b.device, one, sizeof one < p.b.n * 4 ? sizeof one : p.b.n * 4, cudaMemcpyHostToDevice));
        p.alpha = 1;
        p.beta = 0;
        OK(choose(&p));
        OK(multiply(&p));
        fetch(&p.d);
        assert_memory_equal(p.d.host, fast ? in_tf32 : a, sizeof a);
        free_product(&p);
    }
}

/* --- what a product looks at, and what it leaves alone ------------------------------------------- */

static void run_and_expect_finding(const char *part) {
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(emu_findings(), 1);
    assert_non_null(strstr(emu_finding(0), part));
    emu_reset_device();
}

TEST_WITH(products_wait_and_scribble, set_up, tear_down) {
    unsigned char bytes[WORKSPACE];
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 6);
    OK(choose(&p));
    assert_true(p.found.workspaceSize > 0);
    OK(multiply(&p));
    OK(cudaMemcpy(bytes, workspace, WORKSPACE, cudaMemcpyDeviceToHost));
    assert_int_equal(bytes[0], 0); /* its stream was not waited for */
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(bytes, workspace, WORKSPACE, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < WORKSPACE; i++)
        assert_int_equal(bytes[i], i < p.found.workspaceSize ? 0xff : 0);
    free_product(&p);
}

TEST_WITH(operands_are_looked_at, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 3, 6);
    matrix unwritten = make_matrix(CUDA_R_32F, p.m, p.n, 3, false, false), old = p.c;
    OK(choose(&p));
    p.c = unwritten;
    OK(multiply(&p));
    run_and_expect_finding("operand C");
    p.beta = 0;
    OK(multiply(&p)); /* without looking at C, whose bits are no numbers */
    fetch(&p.d);
    check(&p, &p.d);
    assert_int_equal(emu_findings(), 0);
    p.c = old;
    p.beta = 3;
    /* A leading dimension that is too large by one leads to bytes between columns. */
    const int64_t ld = (int64_t)p.b.ld, wrong = ld + 1;
    set_layout(&p.b, CUBLASLT_MATRIX_LAYOUT_LD, &wrong, sizeof wrong);
    OK(choose(&p));
    OK(multiply(&p));
    run_and_expect_finding("operand B");
    set_layout(&p.b, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld);
    /* So does a stride that is too large, in the end beyond the memory. */
    const int64_t far = (int64_t)stride_of(&p.a) + 100;
    set_layout(&p.a, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &far, sizeof far);
    OK(choose(&p));
    OK(multiply(&p));
    run_and_expect_finding("operand A");
    free_matrix(&unwritten);
    free_product(&p);
}

TEST_WITH(declared_operands, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 6);
    const emu_span all[] = {{p.a.device, p.a.n * 4, false},
                            {p.b.device, p.b.n * 4, false},
                            {p.c.device, p.c.n * 4, false},
                            {p.d.device, p.d.n * 4, true},
                            {workspace, WORKSPACE, true}};
    static const char *const names[] = {"operand A", "operand B", "operand C", "result D", "workspace"};
    OK(choose(&p));
    emu_declare(stream, all, 5);
    OK(multiply(&p));
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(emu_findings(), 0);
    for (int missing = 0; missing < 5; missing++) {
        emu_span most[5];
        memcpy(most, all, sizeof most);
        most[missing] = all[(missing + 1) % 5];
        emu_declare(stream, most, 5);
        OK(multiply(&p));
        run_and_expect_finding(names[missing]);
    }
    emu_span read_only[5];
    memcpy(read_only, all, sizeof read_only);
    read_only[3].writable = false;
    emu_declare(stream, read_only, 5);
    OK(multiply(&p));
    run_and_expect_finding("result D");
    free_product(&p);
}

/* --- what is refused --------------------------------------------------------------------------- */

TEST_WITH(algorithms_belong_to_problems, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 6);
    OK(choose(&p));
    const cublasOperation_t trans = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    set_op(&p, CUBLASLT_MATMUL_DESC_TRANSA, &trans, sizeof trans);
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_op(&p, CUBLASLT_MATMUL_DESC_TRANSA, &plain, sizeof plain);
    OK(multiply(&p));
    const int64_t ld = (int64_t)p.d.ld + 1;
    set_layout(&p.d, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld);
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE);
    OK(choose(&p));
    p.found.algo.data[0]++;
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE);
    OK(choose(&p));
    p.found.workspaceSize -= 1;
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE);
    int32_t splits = 0;
    size_t written = 0;
    OK(cublasLtMatmulAlgoConfigGetAttribute(&p.found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, sizeof splits,
                                            &written));
    assert_int_equal(splits, 1);
    OK(cudaStreamSynchronize(stream));
    free_product(&p);
}

TEST_WITH(heuristics_are_refused_while_capturing, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 2, 6);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(choose(&p));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cublasLtMatmulHeuristicResult_t found = p.found;
    assert_int_equal(choose(&p), CUBLAS_STATUS_INTERNAL_ERROR);
    p.found = found;
    OK(multiply(&p)); /* a factor on the host is taken now */
    p.alpha = 1000;
    OK(cudaStreamEndCapture(stream, &graph));
    p.alpha = 2;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, stream));
    fetch(&p.d);
    check(&p, &p.d);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    free_product(&p);
}

TEST_WITH(alignment, set_up, tear_down) {
    static const cublasLtMatmulPreferenceAttributes_t wishes[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 6);
    const uint32_t wrong = 24;
    OK(choose(&p)); /* for 256 bytes */
    p.a.device = (char *)p.a.device + 16;
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE);
    const uint32_t align = 16;
    for (int i = 0; i < 4; i++)
        OK(cublasLtMatmulPreferenceSetAttribute(p.wishes, wishes[i], &align, sizeof align));
    OK(choose(&p));
    OK(multiply(&p));
    p.a.device = (char *)p.a.device - 8;
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE);
    p.a.device = (char *)p.a.device - 8;
    OK(cublasLtMatmulPreferenceSetAttribute(p.wishes, wishes[2], &wrong, sizeof wrong));
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    cudaStreamSynchronize(stream);
    free_product(&p);
}

TEST_WITH(problems_that_are_none, set_up, tear_down) {
    product p = make_product(CUDA_R_16F, CUDA_R_16F, false, false, 2, 6);
    const int32_t by_hand = 99, compute = CUBLAS_COMPUTE_16F, right = CUBLAS_COMPUTE_32F, bias = CUBLASLT_EPILOGUE_BIAS,
                  plain = CUBLASLT_EPILOGUE_DEFAULT, batch = 3, two = 2;
    const int64_t little = 4, overlapping = 10, stride = (int64_t)stride_of(&p.d), ld = (int64_t)p.a.ld;
    set_op(&p, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof compute);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_op(&p, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &right, sizeof right);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &by_hand, sizeof by_hand);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias); /* without a pointer */
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain, sizeof plain);
    set_layout(&p.a, CUBLASLT_MATRIX_LAYOUT_LD, &little, sizeof little);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_layout(&p.a, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld);
    set_layout(&p.b, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_layout(&p.b, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two);
    set_layout(&p.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &overlapping, sizeof overlapping);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_layout(&p.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    assert_int_equal(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    cublasLtMatrixLayout_t with_stride = p.b.layout;
    OK(cublasLtMatrixLayoutCreate(&p.b.layout, CUDA_R_16F, p.k, p.n, (int64_t)p.b.ld));
    set_layout(&p.b, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatrixLayoutDestroy(p.b.layout));
    p.b.layout = with_stride;
    OK(choose(&p));
    OK(multiply(&p));
    assert_int_equal(multiply_into(&p, &p.c, &p.a), CUBLAS_STATUS_INVALID_VALUE); /* another problem */
    void *here = p.d.device;
    p.d.device = p.b.device;
    assert_int_equal(multiply(&p), CUBLAS_STATUS_INVALID_VALUE); /* D over B */
    p.d.device = here;
    OK(cudaStreamSynchronize(stream));
    free_product(&p);
}

TEST_WITH(problems_without_an_algorithm, set_up, tear_down) {
    product p = make_product(CUDA_R_64F, CUDA_R_64F, false, false, 1, 6);
    const int32_t relu = CUBLASLT_EPILOGUE_RELU, plain = CUBLASLT_EPILOGUE_DEFAULT;
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &relu, sizeof relu);
    assert_int_equal(choose(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain, sizeof plain);
    setenv("EMU_CUBLASLT", "none", 1);
    assert_int_equal(choose(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    unsetenv("EMU_CUBLASLT");
    OK(choose(&p));
    free_product(&p);
}

TEST_WITH(factors_on_the_device, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 6);
    const int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
    float factors[2] = {0, 0}, *device;
    OK(cudaMalloc((void **)&device, sizeof factors));
    set_op(&p, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
    OK(choose(&p));
    for (int written = 0; written < 2; written++) {
        OK(cublasLtMatmul(handle, p.desc, device, p.a.device, p.a.layout, p.b.device, p.b.layout, device + 1,
                          p.c.device, p.c.layout, p.d.device, p.d.layout, &p.found.algo, workspace,
                          p.found.workspaceSize, stream));
        if (written == 0)
            run_and_expect_finding("alpha");
        factors[0] = 2;
        factors[1] = 3;
        OK(cudaMemcpy(device, factors, sizeof factors, cudaMemcpyHostToDevice)); /* in time */
    }
    fetch(&p.d);
    check(&p, &p.d);
    OK(cudaFree(device));
    free_product(&p);
}

/* --- epilogues -------------------------------------------------------------------------------- */

static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
static double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

enum { AUX_LD = 128 };

/* What the epilogue makes of the product's element; the auxiliary element before or behind it is x. */
static double finished(int32_t epilogue, double v, double x) {
    if (epilogue & 64)
        return v * gelu_slope(x);
    if (epilogue == CUBLASLT_EPILOGUE_DRELU || epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD)
        return x > 0 ? v : 0;
    return epilogue & 32 ? gelu(v) : epilogue & 2 ? (v > 0 ? v : 0) : v;
}

/* One epilogue with a bias of i - 2.5 for row i, and an auxiliary matrix of i - j where it is read. */
static void check_epilogue(int32_t epilogue) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 1, 6);
    const bool bits = epilogue & 10 && epilogue & 128, reads = epilogue & 72, writes_aux = (epilogue & 128) && !reads;
    const bool bias = epilogue & 4, by_col = epilogue == CUBLASLT_EPILOGUE_BGRADB, bgrad = epilogue & (16 | 256 | 512);
    float aux[4 * AUX_LD] = {0}, vector[5], *aux_at, *vector_at;
    const int64_t ld = AUX_LD;
    OK(cudaMalloc((void **)&aux_at, sizeof aux));
    OK(cudaMalloc((void **)&vector_at, sizeof vector));
    for (int i = 0; i < 5; i++) {
        vector[i] = (float)i - 2.5f;
        for (int j = 0; j < 4; j++)
            if (bits)
                ((unsigned char *)aux)[(j * AUX_LD + i) / 8] |= (unsigned char)((i > j) << i % 8);
            else
                aux[j * AUX_LD + i] = (float)(i - j);
    }
    if (bias)
        OK(cudaMemcpy(vector_at, vector, sizeof vector, cudaMemcpyHostToDevice));
    if (reads)
        OK(cudaMemcpy(aux_at, aux, sizeof aux, cudaMemcpyHostToDevice));
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set_op(&p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector_at, sizeof vector_at);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux_at, sizeof aux_at);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    p.alpha = 0.25;
    OK(choose(&p));
    OK(multiply(&p));
    fetch(&p.d);
    assert_int_equal(emu_findings(), 0);
    double sums[5] = {0};
    for (uint64_t j = 0; j < 4; j++)
        for (uint64_t i = 0; i < 5; i++) {
            const double v = expected(&p, 0, i, j) + (bias ? (double)i - 2.5 : 0), x = (double)i - (double)j;
            const double done = finished(epilogue, v, x);
            sums[i] += done;
            assert_true(fabs(get(p.d.host, CUDA_R_32F, index_of(&p.d, 0, i, j)) - done) < 1e-5 * (1 + fabs(done)));
            if (writes_aux && !bits) {
                OK(cudaMemcpy(aux, aux_at + j * AUX_LD + i, sizeof aux[0], cudaMemcpyDeviceToHost));
                assert_true((double)aux[0] == v);
            } else if (writes_aux) {
                OK(cudaMemcpy(aux, (char *)aux_at + (j * AUX_LD + i) / 8, 1, cudaMemcpyDeviceToHost));
                assert_int_equal(*(unsigned char *)aux >> i % 8 & 1, v > 0);
            }
        }
    if (bgrad) {
        const size_t n = by_col ? 4 : 5;
        OK(cudaMemcpy(vector, vector_at, n * sizeof vector[0], cudaMemcpyDeviceToHost));
        for (uint64_t i = 0; i < n; i++) {
            double sum = epilogue & 16 ? sums[i] : 0;
            for (uint64_t x = 0; x < p.k && !(epilogue & 16); x++)
                sum += by_col ? element_b(&p, 0, x, i) : element_a(&p, 0, i, x);
            assert_true(fabs((double)vector[i] - sum) < 1e-5 * (1 + fabs(sum)));
        }
    }
    assert_int_equal(emu_findings(), 0);
    OK(cudaFree(aux_at));
    OK(cudaFree(vector_at));
    free_product(&p);
}

TEST_WITH(epilogues, set_up, tear_down) {
    static const cublasLtEpilogue_t all[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
        CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB,
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_epilogue((int32_t)all[i]);
}

TEST_WITH(epilogues_that_cannot_be, set_up, tear_down) {
    product p = make_product(CUDA_R_32F, CUDA_R_32F, false, false, 2, 6);
    const int32_t bias = CUBLASLT_EPILOGUE_BIAS, bgrad = CUBLASLT_EPILOGUE_BGRADA, aux = CUBLASLT_EPILOGUE_GELU_AUX;
    const int64_t step = 8, odd = 9, far = 40, near = 24;
    float *memory; /* never written */
    OK(cudaMalloc((void **)&memory, 1000));
    set_op(&p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &memory, sizeof memory);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &memory, sizeof memory);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias);
    OK(choose(&p));
    OK(multiply(&p));
    run_and_expect_finding("bias");
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &bgrad, sizeof bgrad);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE); /* both gradients in one place */
    set_op(&p, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &step, sizeof step);
    OK(choose(&p));
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &aux, sizeof aux);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &odd, sizeof odd);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &far, sizeof far);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &step, sizeof step);
    OK(choose(&p));
    set_op(&p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &near, sizeof near);
    assert_int_equal(choose(&p), CUBLAS_STATUS_INVALID_VALUE);
    OK(cudaFree(memory));
    free_product(&p);
}

TEST_WITH(the_library, set_up, tear_down) {
    cublasLtHandle_t none;
    assert_int_equal(cublasLtGetVersion(), 130100);
    OK(cublasLtLoggerSetLevel(0));
    assert_string_equal(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
    setenv("EMU_DEVICES", "0", 1);
    assert_int_equal(cublasLtCreate(&none), CUBLAS_STATUS_NOT_INITIALIZED);
    unsetenv("EMU_DEVICES");
}
