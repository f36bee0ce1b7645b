/* reduce_type.h: the reducers of one element type that has sums. Set before including: T, SUFFIX; SUM, the type of sums
 * of rows and of blocks; U, in which sums within a block do not overflow; FINITE(x), 0 for an infinity; EXP_SUM, the
 * type of sums of EXP(x, m) = e^(x - m); ABS(x); MEAN(sum, count). */
#define ADD(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define PLAIN(x, m) (x)

#define NAME TK_CAT(sum, SUFFIX)
#define ACC SUM
#define LANE SUM /* of a sum that is truly zero, as a bias before a norm has, floats leave a millionth of its terms */
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
