/* raise.h: the parts of the pass `raise`. */
#ifndef TC_RAISE_H
#define TC_RAISE_H
#include "passes/pass/pass.h"

/* Contractions before and after a softmax that are products of matrices become MatMul. Sets *out_changed if there
 * was one. einsum_product.c */
tc_status tc_lower_einsum_products(tc_pass_env *env, tc_graph *graph, bool *out_changed);
#endif
