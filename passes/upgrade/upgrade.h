/* upgrade.h: shared parts of the upgrade pass. upgrade.def is the table, upgrade.c applies it to the model. The
 * rewrites are in upgrade_old.c (meanings from before the canonical opset), upgrade_new.c (from after it),
 * upgrade_ort.c (ops of ONNX Runtime), upgrade_mixed.c (operands of two types) and upgrade_gradient.c. */
#ifndef TC_UPGRADE_H
#define TC_UPGRADE_H
#include "compiler/ir/ops.h"
#include "passes/pass/pass.h"

typedef struct tc_upgrade {
    tc_ctx *ctx;
    tc_model *model;
    int64_t from;          /* opset of ai.onnx of the current nodes */
    bool in_function;      /* in a function's body, which has no initializers */
    tc_map *rows;          /* op type -> its first row in the table */
    bool accumulate;       /* --accumulate */
    uint32_t accumulators; /* that became outputs: upgrade_ort_leave.c */
} tc_upgrade;

/* Converts the node to the next version, or refuses it. */
typedef tc_status (*tc_upgrade_fn)(tc_upgrade *up, tc_node *node);

/* A constant that `node` can read: an initializer, or in functions a Constant node before it. Named after the node's
 * result. */
tc_value *tc_upgrade_constant(tc_upgrade *up, tc_node *node, const char *what, const tc_tensor *tensor);
tc_value *tc_upgrade_ints(tc_upgrade *up, tc_node *node, const char *what, const int64_t *values, int64_t count);
/* A new node with one result, before `node`. */
tc_value *tc_upgrade_emit(tc_node *node, const char *op, const char *what, tc_value *const *inputs, uint32_t n_inputs);
/* Turns an attribute (INT, INTS, FLOATS) into operand `index`: int64 or float, one-dimensional; also an attribute
 * from a function's caller. Does nothing if the attribute is absent. */
void tc_upgrade_attr_to_input(tc_upgrade *up, tc_node *node, const char *name, uint32_t index);
/* The same for a FLOAT attribute: a scalar of operand 0's element type. */
void tc_upgrade_float_to_input(tc_upgrade *up, tc_node *node, const char *name, uint32_t index);
tc_status tc_upgrade_refuse(tc_upgrade *up, const tc_node *node, const char *what);

/* Replaces a node of an op of ONNX Runtime by its row in ort.def; leaves others. The nodes before it must be
 * canonical, with inferred types. upgrade_ort.c */
tc_status tc_ort_upgrade(tc_upgrade *up, tc_node *node);
bool tc_ort_uses(const tc_graph *graph); /* whether there are such nodes */
void tc_ort_free_names(tc_graph *graph); /* of constants that ONNX Runtime creates itself. upgrade_ort_mend.c */

/* Gives all operands of a norm with two float types one type, by Casts. Leaves other nodes, and those whose types
 * are not known. upgrade_mixed.c */
void tc_upgrade_mixed(tc_node *node);
bool tc_upgrade_may_mix(const tc_graph *graph); /* whether there can be such nodes */
/* Gradient of ai.onnx.preview.training. upgrade_gradient.c */
tc_status tc_ort_gradient(tc_upgrade *up, tc_node *node);

/* The rewrites named in upgrade.def. */
#define CHANGE(op, version, rewrite) tc_status tc_upgrade_##rewrite(tc_upgrade *up, tc_node *node);
#define INPUTS(op, ...)
#define SAME(op, ...)
#include "upgrade.def"
#undef CHANGE
#undef INPUTS
#undef SAME

/* The pass `upgrade` outside a pipeline: to the canonical opset. */
tc_status tc_upgrade_model(tc_ctx *ctx, tc_model *model);
#endif
