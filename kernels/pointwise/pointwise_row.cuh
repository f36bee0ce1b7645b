/* pointwise_row.cuh: the rows of pointwise.def at one point, by the type of the elements: exact functions for float and
 * double, those of pointwise_fast.cuh for 16 bits. */
#ifndef TK_POINTWISE_ROW_CUH
#define TK_POINTWISE_ROW_CUH
#include "pointwise_fast.cuh"
extern "C" {
#include "pointwise.h"
}

/* The functions that rows name, by the type of computation. */
#define OF_ONE(name, form)                                                                                             \
    static __device__ __forceinline__ T name(T x) { return tk_##name##_##form(x); }
#define OF_TWO(name, form)                                                                                             \
    static __device__ __forceinline__ T name(T x, T alpha) { return tk_##name##_##form(x, alpha); }
#define FUNCTIONS(form)                                                                                                \
    struct tk_##form##_points : tk_##form##_functions {                                                                \
        OF_ONE(gelu, form)                                                                                             \
        OF_ONE(gelu_slope, form)                                                                                       \
        OF_ONE(gelu_tanh, form)                                                                                        \
        OF_ONE(gelu_tanh_slope, form)                                                                                  \
        OF_TWO(swish, form)                                                                                            \
        OF_TWO(swish_slope, form)                                                                                      \
    };
FUNCTIONS(f32)
FUNCTIONS(f64)
FUNCTIONS(fast)
template <class S> struct tk_points_of { typedef tk_fast_points type; };
template <> struct tk_points_of<float> { typedef tk_f32_points type; };
template <> struct tk_points_of<double> { typedef tk_f64_points type; };

/* A row's results with functions F: forward(x, alpha), slope(x, alpha). */
template <int ROW, class F> struct tk_row_of;
#define FN(name) F::name
#define POINTWISE(name, domain, op, form, default_alpha, term, y, slope_)                                              \
    template <class F> struct tk_row_of<TK_POINTWISE_##name, F> {                                                      \
        typedef typename F::T T;                                                                                       \
        static __device__ __forceinline__ T forward(T x, T alpha) {                                                    \
            const T t = (T)(term);                                                                                     \
            (void)t, (void)alpha;                                                                                      \
            return y;                                                                                                  \
        }                                                                                                              \
        static __device__ __forceinline__ T slope(T x, T alpha) {                                                      \
            const T t = (T)(term);                                                                                     \
            (void)t, (void)alpha;                                                                                      \
            return slope_;                                                                                             \
        }                                                                                                              \
    };
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
#undef FN

/* The same of a row that is known when the kernel runs. */
template <class S> struct tk_point {
    typedef tk_math<S> T;
    typedef typename tk_points_of<S>::type F;
    static __device__ __forceinline__ T forward(tk_pointwise_row row, T x, T alpha) {
        switch (row) {
#define POINTWISE(name, ...)                                                                                           \
    case TK_POINTWISE_##name:                                                                                          \
        return tk_row_of<TK_POINTWISE_##name, F>::forward(x, alpha);
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
        default: return x;
        }
    }
    static __device__ __forceinline__ T slope(tk_pointwise_row row, T x, T alpha) {
        switch (row) {
#define POINTWISE(name, ...)                                                                                           \
    case TK_POINTWISE_##name:                                                                                          \
        return tk_row_of<TK_POINTWISE_##name, F>::slope(x, alpha);
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
        default: return x;
        }
    }
};
#endif
