/* unary_ops.h: the unary ops as expressions in x and the parameters p0 and p1, one row each: K(op, result, expression),
 * where the result is of the `same` type or a `flag`, 0 or 1. T is the element type and FN(name) its version of a
 * function where the list is expanded; U is an unsigned type that wraps. */
#ifndef TK_UNARY_OPS_H
#define TK_UNARY_OPS_H

#ifndef TK_RESULT_same /* for the templates */
#define TK_RESULT_same T
#define TK_RESULT_flag uint8_t
#define TK_DTYPE_same DTYPE
#define TK_DTYPE_flag TK_BOOL
#endif

#define TK_UNARY_FLOAT(K)                                                                                              \
    K(Neg, same, -x)                                                                                                   \
    K(Abs, same, FN(fabs)(x))                                                                                          \
    K(Sign, same, x > 0 ? 1 : x < 0 ? -1 : x)                                                                          \
    K(Sqrt, same, FN(sqrt)(x))                                                                                         \
    K(Reciprocal, same, 1 / x)                                                                                         \
    K(Exp, same, FN(exp)(x))                                                                                           \
    K(Log, same, FN(log)(x))                                                                                           \
    K(Erf, same, FN(erf)(x))                                                                                           \
    K(Tanh, same, FN(tanh)(x))                                                                                         \
    K(Sigmoid, same, FN(sigmoid)(x))                                                                                   \
    K(Relu, same, x < 0 ? 0 : x)                                                                                       \
    K(LeakyRelu, same, x < 0 ? x * p0 : x)                                                                             \
    K(ThresholdedRelu, same, x > p0 ? x : 0)                                                                           \
    K(Elu, same, x < 0 ? p0 * (FN(exp)(x) - 1) : x)                                                                    \
    K(Selu, same, p1 *(x > 0 ? x : p0 * FN(exp)(x) - p0))                                                              \
    K(Celu, same, (x > 0 ? x : 0) + (x < 0 ? p0 * (FN(exp)(x / p0) - 1) : 0))                                          \
    K(Softplus, same, FN(softplus)(x))                                                                                 \
    K(Softsign, same, x / (1 + FN(fabs)(x)))                                                                           \
    K(HardSigmoid, same, FN(clamp01)(p0 * x + p1))                                                                     \
    K(HardSwish, same, x *FN(clamp01)(x / 6 + (T)0.5))                                                                 \
    K(Shrink, same, x<-p1 ? x + p0 : x> p1 ? x - p0 : 0)                                                               \
    K(Floor, same, FN(floor)(x))                                                                                       \
    K(Ceil, same, FN(ceil)(x))                                                                                         \
    K(Round, same, FN(rint)(x))                                                                                        \
    K(Sin, same, FN(sin)(x))                                                                                           \
    K(Cos, same, FN(cos)(x))                                                                                           \
    K(Tan, same, FN(tan)(x))                                                                                           \
    K(Asin, same, FN(asin)(x))                                                                                         \
    K(Acos, same, FN(acos)(x))                                                                                         \
    K(Atan, same, FN(atan)(x))                                                                                         \
    K(Sinh, same, FN(sinh)(x))                                                                                         \
    K(Cosh, same, FN(cosh)(x))                                                                                         \
    K(Asinh, same, FN(asinh)(x))                                                                                       \
    K(Acosh, same, FN(acosh)(x))                                                                                       \
    K(Atanh, same, FN(atanh)(x))                                                                                       \
    K(IsNaN, flag, x != x)                                                                                             \
    K(IsInf, flag, (p1 != 0 && x > LARGEST) || (p0 != 0 && x < -LARGEST))

#define TK_UNARY_SIGNED(K)                                                                                             \
    K(Neg, same, (U)0 - (U)x)                                                                                          \
    K(Abs, same, x < 0 ? (U)0 - (U)x : (U)x)                                                                           \
    K(Sign, same, (x > 0) - (x < 0))                                                                                   \
    K(Relu, same, x < 0 ? 0 : x)                                                                                       \
    K(BitwiseNot, same, ~(U)x)

#define TK_UNARY_UNSIGNED(K)                                                                                           \
    K(Abs, same, x)                                                                                                    \
    K(Sign, same, x > 0)                                                                                               \
    K(BitwiseNot, same, ~(U)x)

#define TK_UNARY_BOOL(K) K(Not, same, !x)
#endif
