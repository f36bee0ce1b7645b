/* op_list.cuh: a list of unary_ops.h or binary_ops.h as members of a type, whose T (and U) are the type of computation:
 * the ops' numbers, their names, and their results by number, of T's type and 0 or 1. A number that is known at compile
 * time leaves one expression. */
#ifndef TK_OP_LIST_CUH
#define TK_OP_LIST_CUH
#include "../cuda/device.cuh"

#define TK_OP_NUMBER(op, R, expr) op,
#define TK_OP_NAME(op, R, expr) #op,
#define TK_OP_SAME_same(expr) return (T)(expr)
#define TK_OP_SAME_flag(expr) return T()
#define TK_OP_FLAG_same(expr) return false
#define TK_OP_FLAG_flag(expr) return (expr)
/* clang-format off */
#define TK_OP_SAME(op, R, expr) case op: TK_OP_SAME_##R(expr);
#define TK_OP_FLAG(op, R, expr) case op: TK_OP_FLAG_##R(expr);
/* clang-format on */

/* operands: the names that expressions have, after `int op`, in parentheses. */
#define TK_OP_LIST(OPS, operands)                                                                                      \
    enum ops { OPS(TK_OP_NUMBER) };                                                                                    \
    /* Of a name in the list. */                                                                                       \
    static int number_of(const char *name) {                                                                           \
        static const char *const names[] = {OPS(TK_OP_NAME) ""};                                                       \
        int i = 0;                                                                                                     \
        while (*names[i] && strcmp(names[i], name) != 0)                                                               \
            i++;                                                                                                       \
        return i;                                                                                                      \
    }                                                                                                                  \
    static __device__ __forceinline__ T same operands {                                                                \
        switch (op) { OPS(TK_OP_SAME) }                                                                                \
        return T();                                                                                                    \
    }                                                                                                                  \
    static __device__ __forceinline__ bool flag operands {                                                             \
        switch (op) { OPS(TK_OP_FLAG) }                                                                                \
        return false;                                                                                                  \
    }
#endif
