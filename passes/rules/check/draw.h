/* draw.h: shared parts of drawing an operand: shapes with their roles (draw_shape.c), elements (draw_element.c),
 * values (draw.c). */
#ifndef TC_RULE_DRAW_H
#define TC_RULE_DRAW_H
#include "check.h"

#define MAX_DRAWN_RANK 4

typedef struct shape {
    int rank;
    int64_t dims[TC_MAX_RANK];
    tc_dtype dtype;
} shape;

/* Fills rank and dims, and the element type if the op does not fix it; false: `why` is set. */
typedef bool (*role)(rule_instance *inst, const tc_node *node, uint32_t index, shape *s);

/* The role of an operand for its op; NULL: it has none. */
role rule_role_of(const tc_node *node, uint32_t index);
bool rule_role_is_axes(role draw);                   /* a list of axes */
bool rule_role_is_labels(role draw);                 /* of classes, or places along an axis */
bool rule_role_is_target(role draw);                 /* the shape operand of a Reshape */
bool rule_role_is_matrix(role draw, bool *out_left); /* a factor of a product of matrices */
bool rule_role_is_shared(role draw);                 /* broadcast with the others */

bool rule_shape_of(const tc_value *value, shape *out);      /* false: it has none, or it is not known */
bool rule_shape_fail(rule_instance *inst, const char *why); /* false */
int64_t rule_draw_dim(rule_instance *inst);
void rule_draw_shape(rule_instance *inst, int min_rank, shape *s);
void rule_draw_broadcast(rule_instance *inst, const shape *with,
                         shape *s); /* in most cases it leaves `with` as it is */
/* The shape that the other operands of an elementwise op are broadcast to; false: there are none. */
bool rule_others(const tc_node *node, uint32_t index, shape *out);

/* Elements for which operand `index` of the node is defined; `need` may be NULL. */
void rule_draw_elements(rule_instance *inst, const tc_node *node, uint32_t index, tc_dtype dtype, uint64_t count,
                        void *data, const rule_need *need);
/* Replaces some of them by edge cases if the node is defined everywhere. */
void rule_draw_edges(rule_instance *inst, rule_input *input, const tc_node *node, uint32_t index,
                     const rule_need *need);
#endif
