/* ops.h: the table of ops. ops.def has one row per op of the canonical opset (21) and of ai.tempo; nothing else lists
 * ops. */
#ifndef TC_OPS_H
#define TC_OPS_H
#include "ir.h"

#define TC_CANONICAL_OPSET 21
#define TC_NEWEST_OPSET 28 /* newest opset of ai.onnx whose meaning is known: files of newer ones are refused */
#define TC_NEWEST_IR 14
#define TC_TEMPO_DOMAIN "ai.tempo"
#define TC_TEMPO_DOMAIN_VERSION 1
#define TC_LOSS_SCALE_INPUT "tempo.loss_scale" /* the graph input that scales all gradients: float[] */
#define TC_SEED_INPUT "tempo.seed"             /* the graph input that seeds dropout: int64[2], {seed, step} */
#define TC_RATE_INPUT "tempo.rate"             /* the factor of an optimizer's step: float[], without default */
#define TC_UPDATE_INPUT "tempo.update"         /* the number of the update, from 1 on: int64[], without default */
/* Inputs of a graph that accumulates gradients over several runs: whether this run ends with the update, bool[]; the
 * factor of its gradients, float[]; runs since the last update, a state, int64[]. */
#define TC_APPLY_INPUT "tempo.apply"
#define TC_SHARE_INPUT "tempo.share"
#define TC_SUMMED_INPUT "tempo.summed"
#define TC_GRAD_NORM_OUTPUT "tempo.grad_norm" /* the norm of all gradients, unclipped: float[] */
#define TC_LAST_NORM_INPUT "tempo.last_norm"  /* the norm of the update before, a state */
#define TC_FINITE_OUTPUT "tempo.finite"       /* bool[]: all gradients are finite; if not, no weight changed */
/* In standard ops, the last node of a mask keeps these of its Dropout: the attribute `seed`, an int, and the ratio in
 * training, a float. ONNX allows names with two leading underscores on any op. */
#define TC_SEED_MARK "__tempo_seed"
#define TC_RATIO_MARK "__tempo_ratio"
#define TC_VARIADIC UINT32_MAX

enum tc_trait {
    TC_COMMUTATIVE = 1 << 0, /* the two operands may change places */
    TC_ELEMENTWISE = 1 << 1, /* with multidirectional broadcasting where it has several operands */
    TC_VIEW = 1 << 2,        /* same elements, same order, other shape: Reshape, Squeeze, Identity, ... */
    TC_RANDOM = 1 << 3,      /* two calls differ: never merged, never folded */
    TC_SHAPE_ONLY = 1 << 4,  /* reads only the shape of operand 0: Shape, Size */
    TC_CONTROL = 1 << 5,     /* has nested graphs */
    TC_SIDE_EFFECT = 1 << 6, /* never removed */
    TC_SAME_TYPE = 1 << 7,   /* all operands and results have one element type */
    TC_NO_GRADIENT = 1 << 8, /* its results do not depend smoothly on any operand: comparisons, Shape, ... */
    TC_PASSES_MASK = 1 << 9, /* where an operand is a mask or scale of scores, so is the result: views, sums, ... */
};

struct tc_op {
    const char *domain, *name;
    uint16_t since;                  /* version of the schema in force at the canonical opset */
    uint32_t min_inputs, max_inputs; /* TC_VARIADIC: no upper limit */
    uint32_t min_outputs, max_outputs;
    uint32_t types; /* element types that operand 0 may have: bit 1 << tc_dtype */
    uint32_t traits;
    bool has_shape;    /* ops.def names a shape function: types of results are inferred (compiler/shape) */
    bool has_contents; /* ops.def names an evaluator: contents of results may be known (compiler/contents) */
    const char *attrs; /* "axis:i to:i!": name:kind, ! where required; kinds as in ops.def */
    uint16_t index;    /* position in the table: for dense per-op arrays */
};

/* NULL: unknown. "ai.onnx" is "". An ai.tempo name may carry a suffix, as function bodies do: `Attention_m1` is
 * Attention. O(1). */
const tc_op *tc_op_find(const char *domain, const char *name);
/* The file defines the meaning of a function of ai.tempo, unless tempoc wrote it as an op's body (tc_function.is_body).
 * Where such a function has the name of an op, it and its calls get a domain of their own, and nothing takes them for
 * the op. A function of ai.onnx with the name of an op is removed, with a warning: the op is meant, as in other
 * runtimes. own_functions.c */
void tc_part_own_functions(tc_ctx *ctx, tc_model *model);
size_t tc_op_count(void);
const tc_op *tc_op_at(size_t index);
/* True and the attribute's kind in ops.def, or false where the op has no attribute of that name. */
bool tc_op_attr(const tc_op *op, const char *name, tc_attr_kind *out_kind, bool *out_required);
static inline bool tc_node_has(const tc_node *node, unsigned trait) {
    return node->op && (node->op->traits & trait) != 0;
}
#endif
