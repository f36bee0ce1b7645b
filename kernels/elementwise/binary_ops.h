/* binary_ops.h: the binary ops as expressions in a and b, one row each: K(op, result, expression), where the result is
 * of the `same` type or a `flag`, 0 or 1. T is the element type where the list is expanded, U an unsigned type that
 * wraps, FN(name) the type's version of a function. */
#ifndef TK_BINARY_OPS_H
#define TK_BINARY_OPS_H

#ifndef TK_RESULT_same /* for the templates */
#define TK_RESULT_same T
#define TK_RESULT_flag uint8_t
#define TK_DTYPE_same DTYPE
#define TK_DTYPE_flag TK_BOOL
#endif

#define TK_COMPARE(K)                                                                                                  \
    K(Equal, flag, a == b)                                                                                             \
    K(Greater, flag, a > b)                                                                                            \
    K(Less, flag, a < b)                                                                                               \
    K(GreaterOrEqual, flag, a >= b)                                                                                    \
    K(LessOrEqual, flag, a <= b)

#define TK_BINARY_FLOAT(K)                                                                                             \
    K(Add, same, a + b)                                                                                                \
    K(Sub, same, a - b)                                                                                                \
    K(Mul, same, a *b)                                                                                                 \
    K(Div, same, a / b)                                                                                                \
    K(Mod, same, FN(fmod)(a, b))                                                                                       \
    K(ModFloor, same, FN(floor_mod)(a, b))                                                                             \
    K(Max, same, a > b || a != a ? a : b)                                                                              \
    K(Min, same, a < b || a != a ? a : b)                                                                              \
    K(PRelu, same, a < 0 ? a * b : a)                                                                                  \
    TK_COMPARE(K)

#define TK_BINARY_INT(K)                                                                                               \
    K(Add, same, (U)a + (U)b)                                                                                          \
    K(Sub, same, (U)a - (U)b)                                                                                          \
    K(Mul, same, (U)a *(U)b)                                                                                           \
    K(Max, same, a > b ? a : b)                                                                                        \
    K(Min, same, a < b ? a : b)                                                                                        \
    K(BitwiseAnd, same, a &b)                                                                                          \
    K(BitwiseOr, same, a | b)                                                                                          \
    K(BitwiseXor, same, a ^ b)                                                                                         \
    TK_COMPARE(K)

#define TK_BINARY_SIGNED(K)                                                                                            \
    TK_BINARY_INT(K)                                                                                                   \
    K(PRelu, same, a < 0 ? (U)a * (U)b : (U)a)                                                                         \
    K(Div, same, b == 0 ? 0 : b == -1 ? (U)0 - (U)a : (U)(a / b))                                                      \
    K(Mod, same, b == 0 || b == -1 ? 0 : a % b)                                                                        \
    K(ModFloor, same, b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0))

#define TK_BINARY_UNSIGNED(K)                                                                                          \
    TK_BINARY_INT(K)                                                                                                   \
    K(PRelu, same, a)                                                                                                  \
    K(Div, same, b == 0 ? 0 : a / b)                                                                                   \
    K(Mod, same, b == 0 ? 0 : a % b)                                                                                   \
    K(ModFloor, same, b == 0 ? 0 : a % b)                                                                              \
    K(BitShiftLeft, same, b >= sizeof(T) * 8 ? 0 : (U)a << b)                                                          \
    K(BitShiftRight, same, b >= sizeof(T) * 8 ? 0 : (U)a >> b)

#define TK_BINARY_BOOL(K)                                                                                              \
    K(And, same, a &&b)                                                                                                \
    K(Or, same, a || b)                                                                                                \
    K(Xor, same, !a != !b)                                                                                             \
    K(Equal, same, !a == !b)
#endif
