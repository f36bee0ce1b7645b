/* reduce_type.h: x [outer..., reduced..., inner] -> out [outer..., inner].
 * The reducers of one element type that has sums. Set before including: T, SUFFIX; of integers SUM, in which sums wrap,
 * and ABS(x). Sums of rows and of blocks are SUMs, those within a block are Us; FINITE(x) is 0 for an infinity. */
#ifdef SUM
#define U SUM
#define FINITE(x) (x)
#define EXP_SUM double
#define EXP(x, m) exp((double)(x) - (double)(m))
#define MEAN(sum, count) ((count) ? (T)(sum) / (T)(count) : 0)
#else
#define SUM double
#define U T
#define FINITE(x) _Generic((T)0, float : finite_f32, double : finite_f64)(x)
#define EXP_SUM T
#define EXP(x, m) TK_EXP_OF(T)((x)-FINITE(m))
#define ABS(x) _Generic((T)0, float : fabsf, double : fabs)(x)
#define MEAN(sum, count) ((sum) / (double)(count))
#endif
#define ADD(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define PLAIN(x, m) (x)

#define NAME TK_CAT(sum, SUFFIX)
#define ACC SUM
#define LANE SUM /* a sum may be truly zero, as for a bias before a norm: floats leave a millionth of its terms */
#define PART U
#define INIT 0
#define MAP PLAIN
#define JOIN ADD
#include "reduce_tmpl.h"
#define NAME TK_CAT(l1, SUFFIX)
#define ACC SUM
#define PART U
#define INIT 0
#define MAP(x, m) ABS(x)
#define JOIN ADD
#include "reduce_tmpl.h"
#define NAME TK_CAT(square, SUFFIX)
#define ACC SUM
#define PART U
#define INIT 0
#define MAP(x, m) ((U)(x) * (U)(x))
#define JOIN ADD
#include "reduce_tmpl.h"
#define NAME TK_CAT(exp, SUFFIX)
#define ACC double
#define PART EXP_SUM
#define INIT 0
#define MAP(x, m) EXP(x, m)
#define JOIN ADD
#include "reduce_tmpl.h"
#define NAME TK_CAT(prod, SUFFIX)
#define ACC SUM
#define PART SUM
#define INIT 1
#define MAP PLAIN
#define JOIN TIMES
#include "reduce_tmpl.h"

#define TYPE_REDUCERS                                                                                                  \
    {                                                                                                                  \
        &TK_CAT(sum, SUFFIX), &TK_CAT(sum, SUFFIX), &TK_CAT(l1, SUFFIX), &TK_CAT(square, SUFFIX),                      \
            &TK_CAT(square, SUFFIX), &TK_CAT(sum, SUFFIX), &TK_CAT(exp, SUFFIX), &TK_CAT(prod, SUFFIX)                 \
    }
static const reducer *const TK_CAT(reducers, SUFFIX)[] = TYPE_REDUCERS; /* by tk_reduce_op, without Max and Min */

#undef TYPE_REDUCERS
#undef ADD
#undef TIMES
#undef PLAIN
#undef T
#undef SUFFIX
#undef SUM
#undef U
#undef FINITE
#undef EXP
#undef EXP_SUM
#undef ABS
#undef MEAN
