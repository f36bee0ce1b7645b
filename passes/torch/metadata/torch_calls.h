/* torch_calls.h: the PyTorch operations of the nodes of a file, as the dynamo exporter keeps them in a node's metadata
 * (pkg.torch.onnx.fx_node):
 *
 *   %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_w, None), kwargs = {})
 * */
#ifndef TC_TORCH_CALLS_H
#define TC_TORCH_CALLS_H
#include "compiler/ir/ir.h"

/* Text lives in the arena of the call. Arguments are spelled as in the file: "%x", "[1, 2]", "0.1", "True", "None";
 * lists are one argument. */
typedef struct tc_torch_call {
    const char *result; /* "linear": other calls read it as %linear */
    const char *target; /* "aten.linear.default", or "getitem" */
    size_t
        users; /* calls of the program that read the result, including its outputs, and calls that the file has lost */
    const char **args;
    size_t n_args;
    const char **keys, **values; /* of keyword arguments */
    size_t n_keys;
} tc_torch_call;

/* False if the node has no call, or if it is not written like the above. */
bool tc_torch_call_read(tc_arena *arena, const tc_node *node, tc_torch_call *out_call);
/* The call is one of this operation, in any overload: "aten.linear". */
bool tc_torch_call_is(const tc_torch_call *call, const char *operation);
/* Argument `index`, else the keyword argument `key` (may be NULL), else NULL. */
const char *tc_torch_call_argument(const tc_torch_call *call, size_t index, const char *key);
/* The names of values in its arguments, without %, once per occurrence; *out_n of them, in the arena. */
const char **tc_torch_call_names(tc_arena *arena, const tc_torch_call *call, size_t *out_n);
/* Both names are of results of one operation: "slice" and "slice_12". */
bool tc_torch_same_stem(const char *a, const char *b);
/* The name belongs to a result that does not depend on parameters: ones, a number. */
bool tc_torch_is_constant(const char *name);
/* The innermost module around the node: "m.layers.0.attn"; NULL: the file does not say. */
const char *tc_torch_module(tc_arena *arena, const tc_node *node);
/* The exporter writes one Split without a call for the parts of a parameter, and shares equal ones. A node that
 * reads a part belongs to the module of the parameter that it means: "m.layers.1.attn.in_proj_bias", even if the
 * initializer is that of layer 0. NULL: the operand is no such part. */
const char *tc_torch_part_of(tc_arena *arena, const tc_node *node, uint32_t index);
#endif
