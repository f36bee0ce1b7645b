/* verify.h: the invariants of ir.h as code, and the rules of the ONNX standard that need no types. */
#ifndef TC_VERIFY_H
#define TC_VERIFY_H
#include "ir.h"
/* TC_OK, or every violation as a diagnostic (up to 20). A violation after a pass is a bug of that pass. */
tc_status tc_verify(tc_ctx *ctx, const tc_model *model);
/* Arity, attribute types and required attributes of ops that ops.def knows, against the canonical opset. */
tc_status tc_verify_op(tc_ctx *ctx, const tc_node *node); /* of one node; TC_OK where the op is not known */
tc_status tc_verify_ops(tc_ctx *ctx, const tc_graph *graph);
/* The parts that readers of files and of text need, too: function calls fit their functions, form no cycle and expand
 * to a size that can be handled; no nested graph reuses a name of an enclosing graph, wherever that is defined.
 * calls.c */
tc_status tc_check_calls(tc_ctx *ctx, const tc_model *model);
tc_status tc_check_names(tc_ctx *ctx, const tc_graph *graph);
#endif
