/* lora_nodes.h: the nodes of an adapter beside its product, and the weights that its file has. */
#ifndef TC_LORA_NODES_H
#define TC_LORA_NODES_H
#include "adapt.h"
#include "products.h"

/* The trained initializers of an adapter: [rank, in], [out, rank], [out]; magnitude NULL: no DoRA. Float, or double if
 * the product is. */
typedef struct tc_lora_weights {
    tc_value *a, *b, *magnitude;
} tc_lora_weights;

/* The type that the weights have beside this product. */
tc_dtype tc_lora_dtype(const tc_product *product);
/* Puts the nodes after the product and its bias: the result keeps name and readers. An error leaves the graph without
 * that result. */
tc_status tc_lora_insert(tc_pass_env *env, const tc_product *product, const tc_lora *lora, const tc_lora_weights *w);

/* "m.layers.0.q" ends with ".layers.0.q": one of the two was wrapped, or taken out of a larger module. saved_modules.c
 */
bool tc_ends_alike(const char *a, const char *b);
/* A copy in the model, in another type. */
tc_tensor *tc_adapter_tensor(tc_model *model, const tc_tensor *from, tc_dtype dtype);
/* tc_put_saved for all weights that env->options->adapter (NULL: none) has saved; they are recorded as made to be
 * trained. */
tc_status tc_put_saved_modules(tc_pass_env *env, tc_graph *graph);
#endif
