/* bodies.h: where function bodies of ai.tempo ops come from. A body is text in a rules file, `function ai.tempo.Op
 * ...`, or is put together from parts by a maker, for ops with many combinations of operands and switches: these have a
 * row in bodies.def. */
#ifndef TC_BODIES_H
#define TC_BODIES_H
#include "compiler/ir/ops.h"
#include "passes/pass/pass.h"

/* A body in the making: `name` is the op type with the variant's suffix, complete when tc_body_begin is called. */
typedef struct tc_body {
    tc_arena *arena;
    const tc_node *node;
    const char *name, *text;
    char *made; /* text, where tc_body_add puts it together, with the bytes in use and taken */
    size_t length, room;
    tc_function *known; /* the model's function of that name: its text is not put together again */
    tc_model *model;    /* NULL: none is known */
} tc_body;

void tc_body_suffix(tc_body *body, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tc_body_add(tc_body *body, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The lines before the nodes: `params` are the attributes with defaults, as in "alpha: float = 1.0", or "". */
void tc_body_begin(tc_body *body, const char *params, const char *inputs, const char *outputs);
void tc_body_end(tc_body *body);

/* result = x, for `half` floats of 16 bits as float: they would count and add up no further than 65504, or coarsely. */
void tc_body_wide(tc_body *body, bool half, const char *x, const char *result);
/* result = x, for `half` in the element type of `like`. */
void tc_body_like(tc_body *body, bool half, const char *x, const char *like, const char *result);

/* Lines for dropout, in a body with the operands `ratio` and `seed` and the attribute `node`: `keep` is drawn for the
 * elements of a value `shape_of`. To be used once in a body. bodies_dropout.c */
void tc_body_draw(tc_body *body, const char *shape_of);
/* result = x / (1 - ratio) where mask is true, else 0; 1 - ratio is rounded once, to the type of x. */
void tc_body_drop(tc_body *body, const char *x, const char *mask, const char *result);
/* Lines for masks of a bit an element, each to be used once in a body: result = the bools of `mask` packed; the bools
 * of `bits`, in the shape of a value `like`. bodies_bits.c */
void tc_body_pack(tc_body *body, const char *mask, const char *result);
void tc_body_unpack(tc_body *body, const char *bits, const char *like, const char *result);
/* Whether a normalization is over the last axis alone: "", else "a". */
const char *tc_variant_last_axis(const tc_node *node);

/* The makers and form functions that bodies.def names. A maker returns false when it cannot: a rank is not known. A
 * form function returns the suffix of the function's name for this node, "" for the one without, NULL for none. */
#define FORMS_BODY(op, form) const char *tc_form_##form(const tc_node *node);
#define MADE_BODY(op, maker) bool tc_make_##maker(tc_body *body);
#include "bodies.def"
#undef FORMS_BODY
#undef MADE_BODY

/* The function body of an ai.tempo op for this node's operands and attributes, parsed into `model`; NULL: it has none.
 * bodies.c */
tc_status tc_body_for(tc_ctx *ctx, tc_model *model, const tc_node *node, tc_function **out_function);
/* TC_UNSUPPORTED, with an error: nobody has answered it. */
tc_status tc_refuse_request(tc_ctx *ctx, const tc_node *node);
#endif
