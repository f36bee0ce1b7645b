/* binary_tmpl.h: a, b, each broadcast to [dims...] -> out [dims...].
 * The binary kernels of one element type and their rows, in the four variants of elementwise.h. Set before including:
 * T, U, SUFFIX, DTYPE, OPS (a list of binary_ops.h), VECTOR (TK_VECTOR or nothing), HALVES for rows_f16[] and
 * rows_bf16[] with the same kernels. Declares rows_SUFFIX[]. */
#define VARIANT(op, R, expr, variant, A, B)                                                                            \
    VECTOR static void TK_CAT(TK_CAT(op, variant), SUFFIX)(void *out_, const void *a_, const void *b_, int64_t n) {    \
        TK_RESULT_##R *out = out_;                                                                                     \
        const T *as = a_, *bs = b_;                                                                                    \
        const T a0 = *as, b0 = *bs;                                                                                    \
        (void)a0, (void)b0;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T a = A, b = B;                                                                                      \
            (void)a, (void)b;                                                                                          \
            out[i] = (TK_RESULT_##R)(expr);                                                                            \
        }                                                                                                              \
    }
#define KERNEL(op, R, expr)                                                                                            \
    VARIANT(op, R, expr, vv, as[i], bs[i])                                                                             \
    VARIANT(op, R, expr, vs, as[i], b0)                                                                                \
    VARIANT(op, R, expr, sv, a0, bs[i])                                                                                \
    VARIANT(op, R, expr, ss, a0, b0)
#define ROW(op, R, expr)                                                                                               \
    {#op,                                                                                                              \
     DTYPE,                                                                                                            \
     TK_DTYPE_##R,                                                                                                     \
     {TK_CAT(op##_vv, SUFFIX), TK_CAT(op##_vs, SUFFIX), TK_CAT(op##_sv, SUFFIX), TK_CAT(op##_ss, SUFFIX)}},

OPS(KERNEL)
static const tk_binary TK_CAT(rows, SUFFIX)[] = {OPS(ROW)};
#ifdef HALVES
#undef DTYPE
#define DTYPE TK_F16
static const tk_binary rows_f16[] = {OPS(ROW)};
#undef DTYPE
#define DTYPE TK_BF16
static const tk_binary rows_bf16[] = {OPS(ROW)};
#undef HALVES
#endif

#undef VARIANT
#undef KERNEL
#undef ROW
#undef T
#undef U
#undef SUFFIX
#undef DTYPE
#undef KIND
#undef VECTOR
#undef FN
