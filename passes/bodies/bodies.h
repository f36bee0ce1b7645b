/* bodies.h: the source of function bodies of ai.tempo ops. A body is a text in a rules file, `function ai.tempo.Op
 * ...`. For ops with many combinations of operands and switches a maker assembles it; these ops have a row in
 * bodies.def. */
#ifndef TC_BODIES_H
#define TC_BODIES_H
#include "compiler/ir/ops.h"
#include "passes/pass/pass.h"

/* A function body under construction. `name` is the op type with the variant's suffix; it is complete when
 * tc_body_begin is called. */
typedef struct tc_body {
    tc_arena *arena;
    const tc_node *node;
    const char *name, *text;
    char *made; /* the text that tc_body_add appends to, with the bytes in use and allocated */
    size_t length, room;
    tc_function *known; /* the model's function of that name, whose text is not written again */
    tc_model *model;    /* NULL: none is known */
} tc_body;

void tc_body_suffix(tc_body *body, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tc_body_add(tc_body *body, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The lines before the nodes: `params` are the attributes with defaults, as in "alpha: float = 1.0", or "". */
void tc_body_begin(tc_body *body, const char *params, const char *inputs, const char *outputs);
void tc_body_end(tc_body *body);

/* result = x, with `half` as float: 16-bit floats would round sums and counts, or stop at 65504. */
void tc_body_wide(tc_body *body, bool half, const char *x, const char *result);
/* result = x, with `half` in the element type of `like`. */
void tc_body_like(tc_body *body, bool half, const char *x, const char *like, const char *result);

/* Lines for dropout, in a body with the operands `ratio` and `seed` and the attribute `node`: they draw `keep` for
 * the elements of a value `shape_of`. At most once in a body. bodies_dropout.c */
void tc_body_draw(tc_body *body, const char *shape_of);
/* result = x / (1 - ratio) where mask is true, else 0. 1 - ratio is rounded once, to the type of x. */
void tc_body_drop(tc_body *body, const char *x, const char *mask, const char *result);
/* Lines for masks of one bit per element, each at most once in a body: result = the bools of `mask` packed; result =
 * the bools of `bits`, in the shape of a value `like`. bodies_bits.c */
void tc_body_pack(tc_body *body, const char *mask, const char *result);
void tc_body_unpack(tc_body *body, const char *bits, const char *like, const char *result);
/* "" for a normalization over the last axis alone, else "a". */
const char *tc_variant_last_axis(const tc_node *node);

/* The makers and variant functions that bodies.def names. A maker returns false if it cannot make the body because a
 * rank is not known. A variant function returns the suffix of the function's name for this node, "" for the one
 * without, NULL for none. */
#define VARIANTS_BODY(op, variant) const char *tc_variant_##variant(const tc_node *node);
#define MADE_BODY(op, maker) bool tc_make_##maker(tc_body *body);
#include "bodies.def"
#undef VARIANTS_BODY
#undef MADE_BODY

/* The function body of an ai.tempo op for this node's operands and attributes, parsed into `model`; NULL: it has none.
 * bodies.c */
tc_status tc_body_for(tc_ctx *ctx, tc_model *model, const tc_node *node, tc_function **out_function);
/* TC_UNSUPPORTED, with an error, for a Gradient node that is left. */
tc_status tc_refuse_request(tc_ctx *ctx, const tc_node *node);
#endif
