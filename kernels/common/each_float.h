/* each_float.h: a template compiled for float, double, float16 and bfloat16 (element.h), which sees T and SUFFIX, and
 * undefines them. Set before including: TEMPLATE, its path from this folder. */
#include "element.h"

#define T float
#define SUFFIX f32
#include TEMPLATE
#define T double
#define SUFFIX f64
#include TEMPLATE
#define T float
#define SUFFIX f16
#include TEMPLATE
#define T float
#define SUFFIX bf16
#include TEMPLATE
#undef TEMPLATE
