/* torch_calls.h: the PyTorch operations that the nodes of a file came from, as the dynamo exporter keeps them in a
 * node's metadata (pkg.torch.onnx.fx_node):
 *
 *   %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_w, None), kwargs = {})
 */
#ifndef TC_TORCH_CALLS_H
#define TC_TORCH_CALLS_H
#include "compiler/ir/ir.h"

/* Text lives in the arena that the call was read into. Arguments are spelled as in the file: "%x", "[1, 2]", "0.1",
 * "True", "None"; lists are one argument. */
typedef struct tc_torch_call {
    const char *result; /* "linear": what other calls read as %linear */
    const char *target; /* "aten.linear.default", or "getitem" */
    size_t users; /* calls of the program that read the result, its end among them; of those that it has lost, too */
    const char **args;
    size_t n_args;
    const char **keys, **values; /* of keyword arguments */
    size_t n_keys;
} tc_torch_call;

/* False where the node has no call or it is not written like the above. */
bool tc_torch_call_read(tc_arena *arena, const tc_node *node, tc_torch_call *out_call);
/* The call is one of this operation, in any overload: "aten.linear". */
bool tc_torch_call_is(const tc_torch_call *call, const char *operation);
/* Argument `index`, else the keyword argument `key` (may be NULL), else NULL. */
const char *tc_torch_call_argument(const tc_torch_call *call, size_t index, const char *key);
/* The names of values in its arguments, without %, each as often as it stands there; *out_n of them, in the arena. */
const char **tc_torch_call_names(tc_arena *arena, const tc_torch_call *call, size_t *out_n);
/* Both names are of results of one operation: "slice" and "slice_12". */
bool tc_torch_same_stem(const char *a, const char *b);
/* The name is of a result that is the same whatever the parameters are: ones, a number. */
bool tc_torch_is_constant(const char *name);
/* The innermost module around the node: "m.layers.0.attn"; NULL: the file does not tell. */
const char *tc_torch_module(tc_arena *arena, const tc_node *node);
/* The exporter writes one Split without a call for the parts of a parameter, and equal ones once. A node that reads a
 * part belongs to the module of the parameter that it means: "m.layers.1.attn.in_proj_bias", where the initializer may
 * be that of layer 0. NULL: the operand is no such part. */
const char *tc_torch_part_of(tc_arena *arena, const tc_node *node, uint32_t index);
#endif
