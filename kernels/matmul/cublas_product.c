/* cublas_product.c: a product as a problem of cuBLASLt's, the algorithms that were chosen, and the call. cuBLASLt's
 * matrices lie by columns: a row-major product is that of the transposes, out' = op(B)' op(A)', in which every matrix
 * is read as it lies. */
#include "cublas_queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- problems ----------------------------------------------------------------------------------- */

/* The alignment that algorithms may assume at most: buffers of a plan begin at multiples of it, so the algorithm does
 * not depend on addresses. */
#define MOST_ALIGNED 64

_Static_assert(sizeof(tk_cublas_problem) == 7 * sizeof(int64_t) + 10 * sizeof(int32_t), "no padding");

static int32_t alignment(const void *data, int64_t step, size_t size) {
    const uintptr_t bits = (uintptr_t)data | (uintptr_t)step * size | MOST_ALIGNED;
    return (int32_t)(bits & -bits);
}

/* The leading dim of a matrix of `lines` lines as cuBLASLt wants it: of one line any is valid. */
static int64_t leading(int64_t ld, int64_t lines, int64_t width) { return lines == 1 && ld < width ? width : ld; }

/* Columns of the library's results are our rows, so a bias of columns is one of its rows, and sums of our B are those
 * of its A. */
static cublasLtEpilogue_t epilogue_of(const tk_product *p) {
    return p->bias                      ? CUBLASLT_EPILOGUE_BIAS
           : p->sums_of == TK_SUMS_OF_B ? CUBLASLT_EPILOGUE_BGRADA
           : p->sums_of == TK_SUMS_OF_A ? CUBLASLT_EPILOGUE_BGRADB
                                        : CUBLASLT_EPILOGUE_DEFAULT;
}

/* The vector that an epilogue reads or writes: a bias, or sums; NULL: neither. */
static const void *vector_of(const tk_product *p) { return p->bias ? p->bias : p->sums_of ? p->sums : NULL; }

/* Whether the library can do it: not for doubles. Its heuristic takes no alignment of the vector, and its kernels read
 * packs of 16 bytes. */
static bool takes_vector(const void *vector, tk_dtype dtype) {
    return !vector || (dtype != TK_F64 && (uintptr_t)vector % 16 == 0);
}

/* False: cuBLASLt's header excludes it. */
static bool to_problem(const tk_cuda *cuda, const void *out, const void *a, const void *b, const tk_product *p,
                       tk_dtype dtype, tk_cublas_problem *to) {
    const int64_t lines_a = p->trans_a ? p->k : p->m, width_a = p->trans_a ? p->m : p->k,
                  lines_b = p->trans_b ? p->n : p->k, width_b = p->trans_b ? p->k : p->n;
    const size_t size = tk_size(dtype), out_size = tk_size(p->wide ? TK_F32 : dtype);
    const bool one = p->batch == 1;
    *to = (tk_cublas_problem){.m = p->m,
                              .n = p->n,
                              .k = p->k,
                              .lda = leading(p->lda, lines_a, width_a),
                              .ldb = leading(p->ldb, lines_b, width_b),
                              .step_a = one ? 0 : p->a_at.step,
                              .step_b = one ? 0 : p->b_at.step,
                              .batch = (int32_t)p->batch,
                              .dtype = (int32_t)dtype,
                              .wide = p->wide && tk_is_half(dtype),
                              .trans_a = p->trans_a,
                              .trans_b = p->trans_b,
                              .tf32 = cuda->tf32 && dtype == TK_F32,
                              .epilogue = (int32_t)epilogue_of(p)};
    to->align_a = alignment(a, to->step_a, size);
    to->align_b = alignment(b, to->step_b, size);
    to->align_out = alignment((const void *)((uintptr_t)out | (uintptr_t)p->add), one ? 0 : p->m * p->n, out_size);
    return tk_is_float(dtype) && takes_vector(vector_of(p), dtype) && !p->a_at.at && !p->b_at.at &&
           to->lda >= width_a && to->ldb >= width_b && p->k > 0 && p->m <= INT32_MAX && p->n <= INT32_MAX &&
           p->k <= INT32_MAX && p->batch <= INT32_MAX;
}

/* --- chosen algorithms ---------------------------------------------------------------------------- */

static uint32_t hash(const tk_cublas_problem *problem) {
    uint64_t words[sizeof *problem / sizeof(uint64_t)], h = 0;
    memcpy(words, problem, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

/* The slot of the problem, or the free one where it belongs. */
static uint32_t *slot_of(const tk_cublas *cublas, const tk_cublas_problem *problem) {
    for (uint32_t i = hash(problem);; i++) {
        uint32_t *slot = &cublas->slots[i & (cublas->n_slots - 1)];
        if (*slot == 0 || memcmp(&cublas->solutions[*slot - 1].of, problem, sizeof *problem) == 0)
            return slot;
    }
}

static tk_cublas_solution *known(const tk_cublas *cublas, const tk_cublas_problem *problem) {
    const uint32_t at = cublas->n_slots > 0 ? *slot_of(cublas, problem) : 0;
    return at > 0 ? &cublas->solutions[at - 1] : NULL;
}

/* Room for one more; at most half of the slots are taken. */
static bool grow(tk_cublas *cublas) {
    if (cublas->n_solutions < cublas->capacity)
        return true;
    const uint32_t capacity = cublas->capacity > 0 ? 2 * cublas->capacity : 64;
    tk_cublas_solution *solutions = realloc(cublas->solutions, capacity * sizeof *solutions);
    if (!solutions)
        return false;
    cublas->solutions = solutions;
    uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);
    if (!slots)
        return false;
    free(cublas->slots);
    cublas->slots = slots;
    cublas->n_slots = 2 * capacity;
    cublas->capacity = capacity;
    for (uint32_t i = 0; i < cublas->n_solutions; i++)
        *slot_of(cublas, &solutions[i].of) = i + 1;
    return true;
}

static void free_descriptors(const tk_cublaslt *lt, const tk_cublas_solution *s) {
    const cublasLtMatrixLayout_t layouts[] = {s->a, s->b, s->out};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            lt->MatrixLayoutDestroy(layouts[i]);
    if (s->desc)
        lt->MatmulDescDestroy(s->desc);
}

void tk_cublas_forget(tk_cublas *cublas) {
    for (uint32_t i = 0; i < cublas->n_solutions; i++)
        free_descriptors(&cublas->lt, &cublas->solutions[i]);
    free(cublas->solutions);
    free(cublas->slots);
    cublas->solutions = NULL;
    cublas->slots = NULL;
    cublas->n_solutions = cublas->capacity = cublas->n_slots = 0;
}

/* --- choosing ------------------------------------------------------------------------------------- */

/* Stops at the first call that fails, with its status. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const cublasStatus_t status_ = (call);                                                                         \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                                          \
            return status_;                                                                                            \
    } while (0)

static cudaDataType_t type_of(int32_t dtype) {
    return dtype == TK_F64 ? CUDA_R_64F : dtype == TK_F16 ? CUDA_R_16F : dtype == TK_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Doubles are summed and scaled in double, all others in float. */
static cublasStatus_t describe_sums(const tk_cublaslt *lt, tk_cublas_solution *s, const void *vector) {
    const bool is_double = s->of.dtype == TK_F64;
    const cublasOperation_t first = s->of.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = s->of.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY(lt->MatmulDescCreate(&s->desc,
                             is_double    ? CUBLAS_COMPUTE_64F
                             : s->of.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F,
                             is_double ? CUDA_R_64F : CUDA_R_32F));
    TRY(lt->MatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    TRY(lt->MatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    if (!vector)
        return CUBLAS_STATUS_SUCCESS;
    const uint32_t epilogue = (uint32_t)s->of.epilogue;
    TRY(lt->MatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return lt->MatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
}

/* `lines` lines of `width` elements, which are cuBLASLt's columns. */
static cublasStatus_t describe_matrix(const tk_cublaslt *lt, cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                      int64_t lines, int64_t width, int64_t ld, int32_t batch, int64_t step) {
    TRY(lt->MatrixLayoutCreate(out, type, (uint64_t)width, (uint64_t)lines, ld));
    if (batch == 1)
        return CUBLAS_STATUS_SUCCESS;
    TRY(lt->MatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    return lt->MatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
}

static cublasStatus_t describe_matrices(const tk_cublaslt *lt, tk_cublas_solution *s) {
    const tk_cublas_problem *p = &s->of;
    const cudaDataType_t type = type_of(p->dtype);
    TRY(describe_matrix(lt, &s->a, type, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->ldb, p->batch,
                        p->step_b));
    TRY(describe_matrix(lt, &s->b, type, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->lda, p->batch,
                        p->step_a));
    return describe_matrix(lt, &s->out, p->wide ? CUDA_R_32F : type, p->m, p->n, p->n, p->batch, p->m * p->n);
}

/* Sums that are split over k are added in the type of sums, in a step of its own: results of 16 bits are rounded once,
 * and the order is fixed. */
static cublasStatus_t describe_wishes(const tk_cublas *cublas, cublasLtMatmulPreference_t wishes,
                                      const tk_cublas_problem *p) {
    const tk_cublaslt *lt = &cublas->lt;
    const uint64_t workspace = cublas->workspace_bytes;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, align_a = (uint32_t)p->align_a,
                   align_b = (uint32_t)p->align_b, align_out = (uint32_t)p->align_out;
    TRY(lt->MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace));
    TRY(lt->MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme));
    TRY(lt->MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align_b, sizeof align_b));
    TRY(lt->MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align_a, sizeof align_a));
    TRY(lt->MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align_out,
                                         sizeof align_out));
    return lt->MatmulPreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align_out,
                                            sizeof align_out);
}

static cublasStatus_t ask(const tk_cublas *cublas, cublasLtMatmulPreference_t wishes, tk_cublas_solution *s) {
    cublasLtMatmulHeuristicResult_t best = {0};
    int n = 0;
    TRY(describe_wishes(cublas, wishes, &s->of));
    TRY(cublas->lt.MatmulAlgoGetHeuristic(cublas->handle, s->desc, s->a, s->b, s->out, s->out, wishes, 1, &best, &n));
    if (n < 1 || best.state != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    s->algorithm = best.algo;
    s->workspace_bytes = best.workspaceSize;
    s->waves = best.wavesCount;
    s->found = true;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t solve(const tk_cublas *cublas, tk_cublas_solution *s, const void *vector) {
    cublasLtMatmulPreference_t wishes;
    TRY(describe_sums(&cublas->lt, s, vector));
    TRY(describe_matrices(&cublas->lt, s));
    TRY(cublas->lt.MatmulPreferenceCreate(&wishes));
    const cublasStatus_t status = ask(cublas, wishes, s);
    cublas->lt.MatmulPreferenceDestroy(wishes);
    return status;
}

/* The library has no algorithm for the problem, on this device or at all; anything else is an error. */
static bool is_refusal(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ||
           status == CUBLAS_STATUS_INVALID_VALUE;
}

/* NULL: an error, which is noted. */
static tk_cublas_solution *find(tk_cuda *cuda, const tk_cublas_problem *problem, const void *vector) {
    tk_cublas *cublas = cuda->cublas;
    tk_cublas_solution *s = known(cublas, problem);
    if (s)
        return s;
    if (cuda->recording) { /* a plan's first run met all of its problems, and the library may not be queried now */
        tk_cuda_note(cuda, cudaErrorStreamCaptureUnsupported, "a product that no run before had");
        return NULL;
    }
    if (!grow(cublas)) {
        tk_cuda_note(cuda, cudaErrorMemoryAllocation, "products");
        return NULL;
    }
    s = &cublas->solutions[cublas->n_solutions];
    *s = (tk_cublas_solution){.of = *problem};
    const cublasStatus_t status = solve(cublas, s, vector);
    if (status != CUBLAS_STATUS_SUCCESS && !is_refusal(status)) {
        free_descriptors(&cublas->lt, s);
        tk_cuda_note(cuda, cudaErrorUnknown, cublas->lt.GetStatusName(status));
        return NULL;
    }
    *slot_of(cublas, problem) = ++cublas->n_solutions;
    return s;
}

/* --- the call ------------------------------------------------------------------------------------- */

bool tk_cublas_product(tk_cuda *cuda, void *out, const void *a, const void *b, const tk_product *p, tk_dtype dtype) {
    tk_cublas_problem problem;
    if (!to_problem(cuda, out, a, b, p, dtype, &problem))
        return false;
    const void *vector = vector_of(p), *add = p->add ? p->add : out;
    tk_cublas_solution *s = find(cuda, &problem, vector);
    if (!s || !s->found)
        return !s;
    const tk_cublas *cublas = cuda->cublas;
    const float narrow[] = {(float)p->alpha, (float)p->beta};
    const bool is_double = dtype == TK_F64;
    if (vector)
        cublas->lt.MatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
    const cublasStatus_t status =
        cublas->lt.Matmul(cublas->handle, s->desc, is_double ? (const void *)&p->alpha : &narrow[0], b, s->a, a, s->b,
                          is_double ? (const void *)&p->beta : &narrow[1], add, s->out, out, s->out, &s->algorithm,
                          cublas->workspace, s->workspace_bytes, cuda->stream);
    if (is_refusal(status) && !cuda->recording) {
        s->found = false;
        return false;
    }
    if (status != CUBLAS_STATUS_SUCCESS)
        tk_cuda_note(cuda, cudaErrorUnknown, cublas->lt.GetStatusName(status));
    return true;
}

/* --- for people ----------------------------------------------------------------------------------- */

static int32_t part_of(const tk_cublas *cublas, const tk_cublas_solution *s,
                       cublasLtMatmulAlgoConfigAttributes_t part) {
    int32_t value = 0;
    size_t written;
    cublas->lt.MatmulAlgoConfigGetAttribute(&s->algorithm, part, &value, sizeof value, &written);
    return value;
}

static int describe(const tk_cublas *cublas, const tk_cublas_solution *s, char *text, size_t bytes) {
    static const char *const types[] = {
        [TK_F32] = "float", [TK_F64] = "double", [TK_F16] = "float16", [TK_BF16] = "bfloat16"};
    const tk_cublas_problem *p = &s->of;
    const char *beside = p->epilogue == CUBLASLT_EPILOGUE_BIAS      ? ", with a bias"
                         : p->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? ""
                         : p->epilogue == CUBLASLT_EPILOGUE_BGRADA  ? ", with sums of B"
                                                                    : ", with sums of A";
    const int n =
        snprintf(text, bytes, "%d of %s, %lld x %lld x %lld%s%s%s%s%s: ", (int)p->batch, types[p->dtype],
                 (long long)p->m, (long long)p->n, (long long)p->k, p->trans_a ? ", A transposed" : "",
                 p->trans_b ? ", B transposed" : "", p->wide ? ", to float" : "", beside, p->tf32 ? ", TF32" : "");
    const size_t used = (size_t)n < bytes ? (size_t)n : bytes;
    return n + (s->found ? snprintf(text + used, bytes - used,
                                    "algorithm %d, tile %d, %d splits, %zu bytes of workspace, %.2f waves\n",
                                    (int)part_of(cublas, s, CUBLASLT_ALGO_CONFIG_ID),
                                    (int)part_of(cublas, s, CUBLASLT_ALGO_CONFIG_TILE_ID),
                                    (int)part_of(cublas, s, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), s->workspace_bytes,
                                    (double)s->waves)
                         : snprintf(text + used, bytes - used, "no algorithm, a plain kernel\n"));
}

size_t tk_cublas_describe(const tk_cublas *cublas, char *text, size_t bytes) {
    size_t n = 0;
    if (bytes > 0)
        text[0] = '\0';
    for (uint32_t i = 0; cublas && i < cublas->n_solutions; i++) {
        const size_t used = n < bytes ? n : bytes;
        n += (size_t)describe(cublas, &cublas->solutions[i], text + used, bytes - used);
    }
    return n;
}
