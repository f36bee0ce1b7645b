/* cublaslt_double.c: handles, descriptors, algorithms and refusals of the double; cublaslt_product.c computes. */
#include "cublaslt_problem.h"
#include "cuda_work.h"
#include "double_elements.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    int device;
};

/* The least that a product that has any workspace writes over. */
#define WORKSPACE ((uint64_t)4096)

static cublasStatus_t refuse(cublasStatus_t status, const char *why) {
    if (!emu_quiet)
        fprintf(stderr, "emulated device: cublasLt: %s\n", why);
    return status;
}

/* --- handle and library ----------------------------------------------------------------------- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle) {
    int device;
    if (cudaGetDevice(&device) != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (emu_refuses_to_wait())
        return refuse(CUBLAS_STATUS_INTERNAL_ERROR, "cublasLtCreate while a stream is captured");
    *lightHandle = malloc(sizeof **lightHandle);
    if (!*lightHandle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    (*lightHandle)->device = device;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle) {
    free(lightHandle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion(void) { return CUDART_VERSION; }
cublasStatus_t cublasLtLoggerSetLevel(int level) {
    return level >= 0 && level <= 5 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity) {
    (void)capacity;
    return CUBLAS_STATUS_SUCCESS;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
#define ROW(name, text) {CUBLAS_STATUS_##name, "CUBLAS_STATUS_" #name, text},
    ROW(SUCCESS, "success") ROW(NOT_INITIALIZED, "the library was not initialized")
        ROW(ALLOC_FAILED, "the resource allocation failed")
            ROW(INVALID_VALUE, "an unsupported value or parameter was passed to the function")
                ROW(ARCH_MISMATCH, "the function requires an architectural feature absent from the device")
                    ROW(MAPPING_ERROR, "an access to GPU memory space failed")
                        ROW(EXECUTION_FAILED, "the function failed to launch on the GPU")
                            ROW(INTERNAL_ERROR, "an internal operation failed")
                                ROW(NOT_SUPPORTED, "the functionality requested is not supported")
                                    ROW(LICENSE_ERROR, "the functionality requested requires some license")
#undef ROW
};

const char *cublasLtGetStatusName(cublasStatus_t status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "unknown status";
}

/* --- descriptors ------------------------------------------------------------------------------ */

typedef struct preference {
    uint64_t workspace;
    uint32_t alignment[LT_OPERANDS];
} preference;

_Static_assert(sizeof(lt_operation) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");
_Static_assert(sizeof(lt_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");

/* Where an attribute is kept, and of how many bytes it is; size 0: it is taken and has no effect. */
typedef struct attribute {
    int number;
    size_t size, offset;
    bool ignored;
} attribute;

static cublasStatus_t set_attribute(void *object, const attribute *attributes, size_t n, int number, const void *buf,
                                    size_t size) {
    for (size_t i = 0; i < n; i++)
        if (attributes[i].number == number) {
            if (!object || !buf || size != attributes[i].size)
                return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of the wrong size");
            if (!attributes[i].ignored)
                memcpy((char *)object + attributes[i].offset, buf, size);
            return CUBLAS_STATUS_SUCCESS;
        }
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute that the double does not know");
}
#define SET_ATTRIBUTE(object, rows, attr, buf, size)                                                                   \
    set_attribute(object, rows, sizeof rows / sizeof rows[0], (int)(attr), buf, size)
#define MEMBER(type, member) sizeof((type *)0)->member, offsetof(type, member), false

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType,
                                        cudaDataType_t scaleType) {
    *matmulDesc = calloc(1, sizeof **matmulDesc);
    if (!*matmulDesc)
        return CUBLAS_STATUS_ALLOC_FAILED;
    const lt_operation op = {.compute = (int32_t)computeType,
                             .scale = (int32_t)scaleType,
                             .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                             .bias_type = -1,
                             .aux_type = -1};
    memcpy(*matmulDesc, &op, sizeof op);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) {
    free(matmulDesc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr,
                                              const void *buf, size_t sizeInBytes) {
    static const attribute rows[] = {
        {CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, MEMBER(lt_operation, compute)},
        {CUBLASLT_MATMUL_DESC_SCALE_TYPE, MEMBER(lt_operation, scale)},
        {CUBLASLT_MATMUL_DESC_POINTER_MODE, MEMBER(lt_operation, pointer_mode)},
        {CUBLASLT_MATMUL_DESC_TRANSA, MEMBER(lt_operation, trans_a)},
        {CUBLASLT_MATMUL_DESC_TRANSB, MEMBER(lt_operation, trans_b)},
        {CUBLASLT_MATMUL_DESC_TRANSC, MEMBER(lt_operation, trans_c)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, MEMBER(lt_operation, epilogue)},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, MEMBER(lt_operation, bias)},
        {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, MEMBER(lt_operation, bias_stride)},
        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, MEMBER(lt_operation, bias_type)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, MEMBER(lt_operation, aux)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, MEMBER(lt_operation, aux_ld)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, MEMBER(lt_operation, aux_stride)},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, MEMBER(lt_operation, aux_type)},
    };
    return SET_ATTRIBUTE(matmulDesc, rows, attr, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
    *matLayout = calloc(1, sizeof **matLayout);
    if (!*matLayout)
        return CUBLAS_STATUS_ALLOC_FAILED;
    const lt_layout l = {.type = (int32_t)type, .batch = 1, .rows = rows, .cols = cols, .ld = ld};
    memcpy(*matLayout, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) {
    free(matLayout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout, cublasLtMatrixLayoutAttribute_t attr,
                                                const void *buf, size_t sizeInBytes) {
    static const attribute rows[] = {
        {CUBLASLT_MATRIX_LAYOUT_TYPE, MEMBER(lt_layout, type)},
        {CUBLASLT_MATRIX_LAYOUT_ORDER, MEMBER(lt_layout, order)},
        {CUBLASLT_MATRIX_LAYOUT_ROWS, MEMBER(lt_layout, rows)},
        {CUBLASLT_MATRIX_LAYOUT_COLS, MEMBER(lt_layout, cols)},
        {CUBLASLT_MATRIX_LAYOUT_LD, MEMBER(lt_layout, ld)},
        {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, MEMBER(lt_layout, batch)},
        {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, MEMBER(lt_layout, stride)},
    };
    cublasStatus_t status = SET_ATTRIBUTE(matLayout, rows, attr, buf, sizeInBytes);
    if (status == CUBLAS_STATUS_SUCCESS && attr == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        ((lt_layout *)(void *)matLayout)->strided = true;
    return status;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref) {
    *pref = calloc(1, sizeof **pref);
    if (!*pref)
        return CUBLAS_STATUS_ALLOC_FAILED;
    const preference p = {0, {256, 256, 256, 256}};
    memcpy(*pref, &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) {
    free(pref);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
                                                    size_t sizeInBytes) {
    static const attribute rows[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, MEMBER(preference, workspace)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, MEMBER(preference, alignment[LT_A])},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, MEMBER(preference, alignment[LT_B])},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, MEMBER(preference, alignment[LT_C])},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, MEMBER(preference, alignment[LT_D])},
        {CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4, 0, true},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, 0, true},
        {CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4, 0, true},
        {CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, 0, true},
    };
    return SET_ATTRIBUTE(pref, rows, attr, buf, sizeInBytes);
}

/* --- what is a product ------------------------------------------------------------------------ */

int64_t lt_extent(const lt_layout *l) {
    const uint64_t major = l->order == CUBLASLT_ORDER_ROW ? l->rows : l->cols;
    const uint64_t minor = l->order == CUBLASLT_ORDER_ROW ? l->cols : l->rows;
    return (int64_t)(major - 1) * l->ld + (int64_t)minor;
}

/* What cuBLASLt sums in which type, of what it makes what: compute type, scale, A and B, C and D. */
static const int32_t types[][4] = {
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
    {CUBLAS_COMPUTE_64F_PEDANTIC, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
};

static const char *check_types(const lt_problem *p) {
    const lt_layout *l = p->layouts;
    if (l[LT_A].type != l[LT_B].type || l[LT_C].type != l[LT_D].type)
        return "A and B, or C and D, are of different types";
    const int32_t asked[4] = {p->op.compute, p->op.scale, l[LT_A].type, l[LT_D].type};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (memcmp(types[i], asked, sizeof asked) == 0)
            return NULL;
    return "types that do not go together";
}

static const char *check_layout(const lt_layout *l) {
    const bool by_row = l->order == CUBLASLT_ORDER_ROW;
    if (l->order != CUBLASLT_ORDER_COL && !by_row)
        return "an order that the double does not know";
    if (l->rows == 0 || l->cols == 0)
        return "an empty matrix";
    if (l->ld < (int64_t)(by_row ? l->cols : l->rows))
        return "a leading dimension that is smaller than the matrix";
    if (l->batch < 1)
        return "an empty batch";
    return l->batch > 1 && !l->strided ? "a batch without a stride" : NULL;
}

static const char *check_shapes(const lt_problem *p) {
    const lt_layout *l = p->layouts;
    for (int i = 0; i < LT_OPERANDS; i++) {
        const char *wrong = check_layout(&l[i]);
        if (wrong)
            return wrong;
        if (l[i].batch != l[LT_D].batch)
            return "batches of different sizes";
    }
    const uint64_t kb = p->op.trans_b ? l[LT_B].cols : l[LT_B].rows;
    const uint64_t m = p->op.trans_a ? l[LT_A].cols : l[LT_A].rows, n = p->op.trans_b ? l[LT_B].rows : l[LT_B].cols;
    if (p->k != kb || p->m != m || p->n != n)
        return "shapes that do not go together";
    if (l[LT_C].rows != p->m || l[LT_C].cols != p->n || l[LT_C].order != l[LT_D].order)
        return "C and D of different shapes";
    if (l[LT_D].batch > 1 && l[LT_D].stride < lt_extent(&l[LT_D]) && -l[LT_D].stride < lt_extent(&l[LT_D]))
        return "matrices of D that overlap";
    return NULL;
}

/* What may be asked for, and the library has no algorithm for. */
static const char unsupported[] = "no algorithm for an epilogue of doubles, or of a matrix by rows";

static const char *check_epilogue(const lt_problem *p) {
    static const int known[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
        CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB,
    };
    const lt_operation *op = &p->op;
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        found = found || known[i] == op->epilogue;
    if (!found)
        return "an epilogue that there is not";
    if (op->epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return NULL;
    const lt_layout *d = &p->layouts[LT_D];
    const bool bgrad = op->epilogue & (LT_BGRAD | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
    if (d->type == CUDA_R_64F || d->order == CUBLASLT_ORDER_ROW)
        return unsupported;
    if ((op->bias_type >= 0 && op->bias_type != d->type) || (op->aux_type >= 0 && op->aux_type != d->type))
        return "a bias or auxiliary matrix of another type than D";
    if (((op->epilogue & LT_BIAS) || bgrad) && !op->bias)
        return "an epilogue without its bias pointer";
    if (bgrad && d->batch > 1 && op->bias_stride == 0)
        return "a batch whose bias gradients overlap";
    if (!(op->epilogue & LT_AUX))
        return NULL;
    const int64_t step = op->epilogue & (LT_RELU | LT_DRELU) ? 128 : 8;
    if (!op->aux || op->aux_ld < (int64_t)p->m || op->aux_ld % step != 0 || op->aux_stride % step != 0)
        return "an auxiliary matrix without pointer, or with a wrong leading dimension or stride";
    return d->batch > 1 && op->aux_stride < op->aux_ld * (int64_t)p->n ? "auxiliary matrices that overlap" : NULL;
}

/* NULL, or why there is no such product. */
static const char *make_problem(lt_problem *p, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    if (!desc || !a || !b || !c || !d)
        return "a descriptor is missing";
    const cublasLtMatrixLayout_t layouts[LT_OPERANDS] = {a, b, c, d};
    memset(p, 0, sizeof *p);
    memcpy(&p->op, desc, sizeof p->op);
    for (int i = 0; i < LT_OPERANDS; i++)
        memcpy(&p->layouts[i], layouts[i], sizeof p->layouts[i]);
    const lt_layout *l = p->layouts;
    p->m = l[LT_D].rows;
    p->n = l[LT_D].cols;
    p->k = p->op.trans_a ? l[LT_A].rows : l[LT_A].cols;
    if ((p->op.pointer_mode != CUBLASLT_POINTER_MODE_HOST && p->op.pointer_mode != CUBLASLT_POINTER_MODE_DEVICE) ||
        p->op.trans_c != CUBLAS_OP_N)
        return "a pointer mode, or a transposed C, that the double does not know";
    const char *wrong = check_types(p);
    if (!wrong)
        wrong = check_shapes(p);
    return wrong ? wrong : check_epilogue(p);
}

/* --- algorithms ------------------------------------------------------------------------------- */

/* What an algorithm keeps: of which problem it is, how many bytes of workspace it takes, and how operands are aligned.
 */
enum { ALGO_PROBLEM, ALGO_WORKSPACE, ALGO_ALIGNMENT, ALGO_ALIGNMENT_END = ALGO_ALIGNMENT + LT_OPERANDS };

static uint64_t mixed(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Of all but pointers: an algorithm serves every place. */
static uint64_t problem_number(const lt_problem *p) {
    const lt_operation *op = &p->op;
    const int64_t of_op[] = {op->compute,   op->scale,    op->pointer_mode, op->trans_a, op->trans_b,   op->epilogue,
                             op->bias_type, op->aux_type, op->bias_stride,  op->aux_ld,  op->aux_stride};
    uint64_t h = 0x7e3b0;
    for (size_t i = 0; i < sizeof of_op / sizeof of_op[0]; i++)
        h = mixed(h, (uint64_t)of_op[i]);
    for (int i = 0; i < LT_OPERANDS; i++) {
        const lt_layout *l = &p->layouts[i];
        const int64_t of_layout[] = {
            l->type, l->order, l->batch, (int64_t)l->rows, (int64_t)l->cols, l->ld, l->batch > 1 ? l->stride : 0};
        for (size_t j = 0; j < sizeof of_layout / sizeof of_layout[0]; j++)
            h = mixed(h, (uint64_t)of_layout[j]);
    }
    return h | 1;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t preference_, int requestedAlgoCount,
                                              cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
                                              int *returnAlgoCount) {
    lt_problem p;
    preference wanted;
    *returnAlgoCount = 0;
    if (!lightHandle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (emu_is_capturing())
        return refuse(CUBLAS_STATUS_INTERNAL_ERROR, "cublasLtMatmulAlgoGetHeuristic while a stream is captured");
    if (!preference_ || requestedAlgoCount < 1)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "no preference, or no algorithm is asked for");
    const char *wrong = make_problem(&p, operationDesc, Adesc, Bdesc, Cdesc, Ddesc);
    const char *none = getenv("EMU_CUBLASLT");
    if (!wrong && none && strcmp(none, "none") == 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wrong)
        return refuse(wrong == unsupported ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE, wrong);
    memcpy(&wanted, preference_, sizeof wanted);
    cublasLtMatmulHeuristicResult_t r = {.state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1};
    r.workspaceSize = wanted.workspace < WORKSPACE ? 0 : WORKSPACE;
    r.algo.data[ALGO_PROBLEM] = problem_number(&p);
    r.algo.data[ALGO_WORKSPACE] = r.workspaceSize;
    for (int i = 0; i < LT_OPERANDS; i++) {
        const uint32_t a = wanted.alignment[i];
        if (a == 0 || (a & (a - 1)) != 0 || a > 256)
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "an alignment that is no power of two up to 256");
        r.algo.data[ALGO_ALIGNMENT + i] = a;
    }
    heuristicResultsArray[0] = r;
    *returnAlgoCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* Its only algorithm is number 1, whose sums are not split; all other attributes are 0. */
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, void *buf,
                                                    size_t sizeInBytes, size_t *sizeWritten) {
    const int32_t value = attr == CUBLASLT_ALGO_CONFIG_ID || attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM;
    if (!algo || algo->data[ALGO_PROBLEM] == 0 || !buf || sizeInBytes != sizeof value)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "no algorithm, or no room for its attribute");
    memcpy(buf, &value, sizeof value);
    if (sizeWritten)
        *sizeWritten = sizeof value;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- the product ------------------------------------------------------------------------------ */

static const char *check_algorithm(const lt_product *p, const cublasLtMatmulAlgo_t *algo) {
    if (!algo)
        return "a product without an algorithm: its choice would be the library's";
    if (algo->data[ALGO_PROBLEM] != problem_number(&p->problem))
        return "an algorithm of another problem";
    if (p->workspace_bytes < algo->data[ALGO_WORKSPACE])
        return "less workspace than the algorithm takes";
    if ((uintptr_t)p->workspace % 256 != 0)
        return "a workspace that is not aligned to 256 bytes";
    for (int i = 0; i < LT_OPERANDS; i++) {
        const size_t item = double_size(p->problem.layouts[i].type);
        if (!p->at[i] && !(i == LT_C && !p->beta_at && p->beta == 0))
            return "an operand is missing";
        if ((uintptr_t)p->at[i] % algo->data[ALGO_ALIGNMENT + i] != 0 || (uintptr_t)p->at[i] % item != 0)
            return "an operand that is less aligned than was promised";
    }
    const size_t item = double_size(p->problem.layouts[LT_D].type);
    if ((uintptr_t)p->problem.op.bias % item != 0 || (uintptr_t)p->problem.op.aux % 16 != 0)
        return "a bias that is not aligned, or an auxiliary matrix that is not to 16 bytes";
    return NULL;
}

/* The bytes from the first element that the operand has to behind its last. */
static emu_span bytes_of(const lt_product *p, int operand) {
    const lt_layout *l = &p->problem.layouts[operand];
    const int64_t last = (l->batch - 1) * l->stride, item = (int64_t)double_size(l->type);
    const int64_t begin = last < 0 ? last : 0, end = (last < 0 ? 0 : last) + lt_extent(l);
    return (emu_span){(const char *)p->at[operand] + begin * item, (size_t)((end - begin) * item), operand == LT_D};
}

static bool overlap(emu_span a, emu_span b) {
    return (const char *)a.at < (const char *)b.at + b.bytes && (const char *)b.at < (const char *)a.at + a.bytes;
}

static const char *check_places(const lt_product *p) {
    const lt_layout *c = &p->problem.layouts[LT_C], *d = &p->problem.layouts[LT_D];
    const emu_span result = bytes_of(p, LT_D), workspace = {p->workspace, p->workspace_bytes, true};
    if (overlap(result, bytes_of(p, LT_A)) || overlap(result, bytes_of(p, LT_B)))
        return "D lies over A or B";
    if (p->at[LT_C] && p->at[LT_C] == p->at[LT_D])
        return c->ld != d->ld || (c->batch > 1 && c->stride != d->stride) ? "C is D with another layout" : NULL;
    if (p->at[LT_C] && (p->beta != 0 || p->beta_at) && overlap(result, bytes_of(p, LT_C)))
        return "D lies over C, and is not C";
    return p->workspace_bytes > 0 && overlap(result, workspace) ? "D lies over the workspace" : NULL;
}

static void set_factors(lt_product *p, const void *alpha, const void *beta) {
    if (p->problem.op.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        p->alpha_at = alpha;
        p->beta_at = beta;
    } else if (p->problem.op.scale == CUDA_R_64F) {
        memcpy(&p->alpha, alpha, sizeof p->alpha);
        memcpy(&p->beta, beta, sizeof p->beta);
    } else {
        float factors[2];
        memcpy(&factors[0], alpha, sizeof factors[0]);
        memcpy(&factors[1], beta, sizeof factors[1]);
        p->alpha = (double)factors[0];
        p->beta = (double)factors[1];
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc,
                              const void *beta, const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceSizeInBytes, cudaStream_t stream) {
    lt_product made = {.at = {A, B, C, D}, .workspace = workspace, .workspace_bytes = workspaceSizeInBytes};
    if (!lightHandle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const char *wrong = make_problem(&made.problem, computeDesc, Adesc, Bdesc, Cdesc, Ddesc);
    if (!wrong && (!alpha || !beta || (!workspace && workspaceSizeInBytes > 0)))
        wrong = "a factor or the workspace is missing";
    if (!wrong) {
        set_factors(&made, alpha, beta);
        wrong = check_algorithm(&made, algo);
    }
    if (!wrong)
        wrong = check_places(&made);
    if (wrong)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, wrong);
    lt_product *p = malloc(sizeof *p);
    if (!p)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *p = made;
    return emu_on_stream(stream, lt_run_product, free, p) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}
