/* torch_signature.h: the inputs of the exported program as PyTorch's dynamo exporter lists them: which are
 * parameters, which are buffers, and their names in PyTorch. They are in the graph's metadata
 * (pkg.torch.export.ExportedProgram.graph_signature), one line each, also those that the exporter folded away:
 *
 *   p_m_fc_weight: PARAMETER target='m.fc.weight' */
#ifndef TC_TORCH_SIGNATURE_H
#define TC_TORCH_SIGNATURE_H
#include "compiler/ir/ir.h"

/* Upper limit of vectors made from the declarations of a file without its weights. */
enum { TC_MOST_CHANNELS = 1 << 24 };

typedef enum tc_torch_kind {
    TC_TORCH_UNKNOWN,   /* the file does not say */
    TC_TORCH_PARAMETER, /* a parameter, trained by PyTorch unless requires_grad is False, which the file does not keep
                         */
    TC_TORCH_BUFFER,
    TC_TORCH_CONSTANT, /* a tensor in the program's text */
    TC_TORCH_INPUT,    /* an argument of the caller */
} tc_torch_kind;

typedef struct tc_torch_input {
    tc_torch_kind kind;
    const char *token;  /* its name in calls, without %: "p_m_fc_weight" */
    const char *target; /* its name in PyTorch: "m.fc.weight"; NULL for arguments */
    bool changed;       /* the program writes a new value into it, as training mode does with running statistics */
} tc_torch_input;

typedef struct tc_torch_signature {
    tc_torch_input *inputs;
    size_t n;
    tc_map *by_token, *by_target; /* -> tc_torch_input */
    const char **outputs;         /* names of the program's outputs in calls, without % */
    size_t n_outputs;
    const char **changes; /* the same for values written into buffers and inputs */
    size_t n_changes;
} tc_torch_signature;

/* In the arena; NULL if the file has no signature. */
const tc_torch_signature *tc_torch_signature_read(tc_arena *arena, const tc_graph *graph);
/* The kind of an initializer under its own name. */
tc_torch_kind tc_torch_kind_of(const tc_torch_signature *signature, const tc_value *initializer);
/* The names that the exporter folded an initializer from (pkg.onnxscript.optimizer.folded_from): PyTorch's for
 * parameters and buffers, the file's for results between them. *out_n is 0 if nothing was folded. */
const char **tc_torch_folded_from(tc_arena *arena, const tc_value *initializer, size_t *out_n);
#endif
