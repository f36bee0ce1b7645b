/* unary_tmpl.h: x [n] -> y [n].
 * The unary kernels of one element type and their rows. Set before including: T, U, SUFFIX, DTYPE, OPS (a list of
 * unary_ops.h); HALVES for rows_f16[] and rows_bf16[] with the same kernels. Declares rows_SUFFIX[]. */
#define KERNEL(op, R, expr)                                                                                            \
    TK_VECTOR static void TK_CAT(op, SUFFIX)(void *out_, const void *inp_, int64_t n, const double *params) {          \
        TK_RESULT_##R *out = out_;                                                                                     \
        const T *inp = inp_;                                                                                           \
        const T p0 = (T)params[0], p1 = (T)params[1];                                                                  \
        (void)p0, (void)p1;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T x = inp[i];                                                                                        \
            out[i] = (TK_RESULT_##R)(expr);                                                                            \
        }                                                                                                              \
    }
#define ROW(op, R, expr) {#op, DTYPE, TK_DTYPE_##R, TK_CAT(op, SUFFIX)},

OPS(KERNEL)
static const tk_unary TK_CAT(rows, SUFFIX)[] = {OPS(ROW)};
#ifdef HALVES
#undef DTYPE
#define DTYPE TK_F16
static const tk_unary rows_f16[] = {OPS(ROW)};
#undef DTYPE
#define DTYPE TK_BF16
static const tk_unary rows_bf16[] = {OPS(ROW)};
#undef HALVES
#endif

#undef KERNEL
#undef ROW
#undef T
#undef U
#undef SUFFIX
#undef DTYPE
#undef KIND
#undef VECTOR
#undef FN
#undef LARGEST
