/* products.h: products of an activation and a weight of the file, and what their weights are called. */
#ifndef TC_PRODUCTS_H
#define TC_PRODUCTS_H
#include "passes/pass/pass.h"

typedef struct tc_product {
    tc_node *node;
    tc_value *x;      /* [.., in] */
    tc_value *factor; /* the operand that comes from the weight, [in, out] or (`flipped`) [out, in] */
    tc_value *weight; /* the initializer: [out, in], or (`turned`) [in, out] */
    tc_node *end;     /* whose result PyTorch's module returns: the node, or the Add of its bias */
    tc_value *bias;   /* [out], that the node or `end` adds; NULL: none */
    bool flipped, turned;
    int64_t in, out;
    const char *name, *module; /* in PyTorch, "m.q.weight" and "m.q"; else as in the file */
    const char *own_name,
        *own_module; /* in the file; the module as in PyTorch where the file's name is an embedding's */
} tc_product;

/* The products of the main graph, in the order of its nodes. Arrays live in `scratch`, names in the context's arena. */
size_t tc_find_products(tc_pass_env *env, tc_arena *scratch, tc_graph *graph, tc_product **out_products);
/* The name of a weight's module: without ".weight", ".MatMul.weight". In the arena. */
const char *tc_module_of_weight(tc_arena *arena, const char *weight);
#endif
