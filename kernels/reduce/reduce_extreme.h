/* reduce_extreme.h: the reducers Max and Min of one element type. Set before including: T, SUFFIX, LOWEST, HIGHEST,
 * LARGER_OF and SMALLER_OF (two elements). */
#define NAME TK_CAT(max, SUFFIX)
#define ACC T
#define PART T
#define INIT LOWEST
#define MAP ITSELF
#define JOIN LARGER_OF
#include "reduce_tmpl.h"
#define NAME TK_CAT(min, SUFFIX)
#define ACC T
#define PART T
#define INIT HIGHEST
#define MAP ITSELF
#define JOIN SMALLER_OF
#include "reduce_tmpl.h"
#undef T
#undef SUFFIX
#undef LOWEST
#undef HIGHEST
#undef LARGER_OF
#undef SMALLER_OF
