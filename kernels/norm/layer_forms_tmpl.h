/* layer_forms_tmpl.h: x [rows, n] -> xhat -> y [rows, n]; dy [rows, n] -> dx [rows, n], dscale, dbias [n].
 * Normalizations of rows and their gradients, for each saved operand (x, x-hat or y) and one element type. Set before
 * including: T, SUFFIX. */
#include "layer_tmpl.h"

/* x-hat as it is stored, from x. */
#define FORM TK_CAT(from_x, SUFFIX)
#define XHAT(i) GET(PUT(TK_CAT(tk_xhat, MATH)(GET(x[i]), mean, inv_std)))
#define ROW S
#define ROW_OF(row) ((const S *)c->inp + (row)*n)
#include "norm_grad_tmpl.h"

#define FORM TK_CAT(from_xhat, SUFFIX)
#define XHAT(i) GET(x[i])
#define ROW S
#define ROW_OF(row) ((const S *)c->inp + (row)*n)
#include "norm_grad_tmpl.h"

#define FORM TK_CAT(from_y, SUFFIX)
#define XHAT(i) x[i]
#define ROW T
#define ROW_OF(row) TK_CAT(recovered_row, SUFFIX)(c, chunk, row)
#include "norm_grad_tmpl.h"
#undef T
#undef SUFFIX
