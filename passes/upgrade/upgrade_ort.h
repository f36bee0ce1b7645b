/* upgrade_ort.h: helpers shared by the rewrites of ONNX Runtime's ops. ort.def is the table. The rewrites are in
 * upgrade_ort.c (ops that are another op or a few), upgrade_ort_attention.c, upgrade_ort_broadcast.c (gradients of
 * broadcast operands), upgrade_ort_builder.c (gradients that our own builders make), upgrade_ort_fused.c (ops of graphs
 * optimized for GPUs), upgrade_ort_leave.c (gradients that leave the graph), upgrade_ort_norm.c and upgrade_ort_mend.c
 * (mistakes of the training tools). */
#ifndef TC_UPGRADE_ORT_H
#define TC_UPGRADE_ORT_H
#include "upgrade.h"

#define TC_OPERANDS(...) (tc_value *[]){__VA_ARGS__}, (uint32_t)TC_COUNT(((tc_value *[]){__VA_ARGS__}))
/* The result of a new node of ai.onnx before `node`, named after it and `what`. */
#define TC_EMIT(node, op, what, ...) tc_upgrade_emit(node, op, what, TC_OPERANDS(__VA_ARGS__))
#define TC_BECOME(node, domain, op, ...) tc_ort_become(node, domain, op, TC_OPERANDS(__VA_ARGS__))

/* The node becomes another op with these operands; results and attributes stay. */
tc_status tc_ort_become(tc_node *node, const char *domain, const char *op, tc_value *const *operands, uint32_t n);
/* A number of the element type of `like`. */
tc_value *tc_ort_number(tc_upgrade *up, tc_node *node, const char *what, double value, tc_value *like);
/* The rank of an operand; refused if it is below `least`. */
tc_status tc_ort_need_rank(tc_upgrade *up, const tc_node *node, uint32_t operand, int least, int *out_rank);
/* Refuses a node that uses results after the first `most`; the op has no others. */
tc_status tc_ort_need_results(tc_upgrade *up, const tc_node *node, uint32_t most);
/* Replaces the node's results by other values and removes the node. NULL: that result has no uses. */
void tc_ort_replace_results(tc_node *node, tc_value *const *values, uint32_t n);
/* dY, summed over the axes along which the forward result, of these dims [rank], has one element and dY has more.
 * Parameters per position are repeated for a batch. If the size of the batch is a symbol, the tools treat it as 1
 * and omit the sum; the sum is added with a warning. upgrade_ort_mend.c */
tc_value *tc_ort_unrepeated(tc_upgrade *up, tc_node *node, tc_value *dy, const tc_dim *dims, int rank);
/* Operand `index` plus the bias after it, which may be absent. */
tc_value *tc_ort_biased(tc_node *node, uint32_t index);

/* The rewrites named in ort.def. */
#define SAME_OP(domain, op, new_domain, new_op, operands)
#define REWRITE(domain, op, rewrite) tc_status tc_ort_##rewrite(tc_upgrade *up, tc_node *node);
#define REFUSE(domain, op, hint)
#include "ort.def"
#undef SAME_OP
#undef REWRITE
#undef REFUSE
#endif
