/* torch_signature.h: what PyTorch's dynamo exporter says of the inputs of the program that it exported: which are
 * parameters, which are buffers, and what they are called in PyTorch. Kept in the graph's metadata
 * (pkg.torch.export.ExportedProgram.graph_signature), a line each, also for those that the exporter folded away:
 *
 *   p_m_fc_weight: PARAMETER target='m.fc.weight' */
#ifndef TC_TORCH_SIGNATURE_H
#define TC_TORCH_SIGNATURE_H
#include "compiler/ir/ir.h"

/* Vectors that are made by what a file without its weights declares are no longer than this. */
enum { TC_MOST_CHANNELS = 1 << 24 };

typedef enum tc_torch_kind {
    TC_TORCH_UNKNOWN,   /* the file does not tell */
    TC_TORCH_PARAMETER, /* what PyTorch trains, unless requires_grad is False, which the file does not keep */
    TC_TORCH_BUFFER,
    TC_TORCH_CONSTANT, /* a tensor in the program's text */
    TC_TORCH_INPUT,    /* what the caller gives */
} tc_torch_kind;

typedef struct tc_torch_input {
    tc_torch_kind kind;
    const char *token;  /* its name in calls, without %: "p_m_fc_weight" */
    const char *target; /* its name in PyTorch: "m.fc.weight"; NULL for what the caller gives */
    bool changed;       /* the program writes a new value into it, as training mode does with running statistics */
} tc_torch_input;

typedef struct tc_torch_signature {
    tc_torch_input *inputs;
    size_t n;
    tc_map *by_token, *by_target; /* -> tc_torch_input */
    const char **outputs;         /* names in calls, without %, of what the caller gets */
    size_t n_outputs;
    const char **changes; /* the same of what is written into buffers and inputs */
    size_t n_changes;
} tc_torch_signature;

/* In the arena; NULL where the file has no signature. */
const tc_torch_signature *tc_torch_signature_read(tc_arena *arena, const tc_graph *graph);
/* The kind of an initializer under its own name. */
tc_torch_kind tc_torch_kind_of(const tc_torch_signature *signature, const tc_value *initializer);
/* The names that the exporter computed an initializer from when it exported (pkg.onnxscript.optimizer.folded_from):
 * PyTorch's of parameters and buffers, the file's of results between them. *out_n is 0 where nothing was folded. */
const char **tc_torch_folded_from(tc_arena *arena, const tc_value *initializer, size_t *out_n);
#endif
