/* torch_operands.h: which argument of PyTorch's call an operand of a node was. Exporters merge equal tensors and
 * store some twice; the node's call (torch_calls.h) still says which one was meant. */
#ifndef TC_TORCH_OPERANDS_H
#define TC_TORCH_OPERANDS_H
#include "torch_signature.h"

/* The calls of a graph's nodes and the inputs that they read, in the arena it was read into. */
typedef struct tc_torch_program tc_torch_program;

typedef enum tc_torch_operand_kind {
    TC_OPERAND_UNTOLD,   /* the node has no call, or its call does not show it */
    TC_OPERAND_INPUT,    /* an input of the program: a parameter, a buffer, a constant of its text */
    TC_OPERAND_EITHER,   /* one of several inputs */
    TC_OPERAND_CONSTANT, /* a number in the call, or one that the exporter added */
} tc_torch_operand_kind;

typedef struct tc_torch_operand {
    tc_torch_operand_kind kind;
    const tc_torch_input **inputs; /* one of TC_OPERAND_INPUT, two or more of TC_OPERAND_EITHER */
    size_t n;
    bool layout;     /* the layout of the operand is known: */
    bool transposed; /* the input's transpose; else the input itself */
} tc_torch_operand;

/* Files without a signature are read, too: in their calls, %p_, %b_ and %c_ begin the names of parameters, buffers
 * and constants. Targets are the names of initializers, or composed of the modules around the node. */
tc_torch_program *tc_torch_program_read(tc_arena *arena, const tc_graph *graph);
/* The file keeps calls; the one of this node. */
bool tc_torch_has_calls(const tc_torch_program *program);
bool tc_torch_has_call(const tc_torch_program *program, const tc_node *node);
/* The meaning of the initializer that is operand `index` of the node. */
tc_torch_operand tc_torch_operand_of(tc_torch_program *program, const tc_node *node, uint32_t index);
/* The input with the initializer's name; NULL: none. */
const tc_torch_input *tc_torch_input_of(const tc_torch_program *program, const tc_value *initializer);
/* The file's record of an input by its name in PyTorch. */
tc_torch_kind tc_torch_kind_named(const tc_torch_program *program, const char *target);
/* Whether the input is stored as this initializer, perhaps with others: it has its name, or was folded from it. */
bool tc_torch_is_input(tc_torch_program *program, const tc_value *initializer, const tc_torch_input *input);
#endif
