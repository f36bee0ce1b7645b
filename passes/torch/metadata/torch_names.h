/* torch_names.h: which parameters of PyTorch the initializers of a file are, and their names there, if the dynamo
 * exporter recorded it. It renames parameters whose layout it changes: "val_20" is the transpose of "m.q.weight". */
#ifndef TC_TORCH_NAMES_H
#define TC_TORCH_NAMES_H
#include "passes/pass/pass.h"
#include "torch_signature.h"

#define TC_PARAMETER_KEY "tempo.parameter."

/* How to get a parameter from its initializer. */
typedef enum tc_torch_layout {
    TC_TORCH_AS_IT_IS,
    TC_TORCH_TRANSPOSED, /* of rank 2 */
    TC_TORCH_FLATTENED,  /* the parameter has one axis */
    TC_TORCH_RESHAPED,   /* the same elements in the same order; the shape is not known */
    TC_TORCH_ROWS,       /* the initializer has some of a table's rows, or another part */
    TC_TORCH_SHIFTED,    /* the initializer is the parameter plus a number that the file does not keep */
    TC_TORCH_OTHER,      /* the same elements in an unknown order */
} tc_torch_layout;

typedef struct tc_torch_name {
    const char *name; /* PyTorch's */
    tc_torch_layout layout;
} tc_torch_name;

/* Sets value->learned of every initializer that the file describes, and env->summary->torch_names. Called once,
 * before any pass. */
void tc_torch_record(tc_pass_env *env, const tc_model *model);
/* The parameter of the initializer of that name; NULL: the file does not say, or it has the parameter's own name. */
const tc_torch_name *tc_torch_name_of(const tc_summary *summary, const char *initializer);
/* PyTorch's name of an initializer, else its own. */
const char *tc_torch_name_or_own(const tc_summary *summary, const char *initializer);
/* "val_20 (m.q.weight, transposed)", or the initializer's own name if the rest is not known. In the arena. */
const char *tc_torch_full_name(tc_arena *arena, const tc_summary *summary, const char *initializer);
/* Keeps the parameters of the initializers in the model's metadata, for later tools:
 *
 *   tempo.parameter.INITIALIZER   PyTorch's name, and after a space "transposed", "flattened", "reshaped", "part",
 *                                 "shifted" or "reordered" */
void tc_torch_keep_names(tc_pass_env *env, tc_model *model, tc_value *const *initializers, size_t n);
/* Reads such metadata; false: there is no entry, and it has its own name. The name is in `arena`. */
bool tc_torch_kept_name(tc_arena *arena, const tc_model *model, const char *initializer, tc_torch_name *out_name);
/* The parameter of an initializer whose name PyTorch's older exporter made up, from the node that reads it; false:
 * the node does not show it. The name is in `arena`. script_names.c */
bool tc_script_name(tc_arena *arena, const tc_value *initializer, tc_torch_name *out_name);
/* The parameter of an initializer by any of these three: what passes recorded, its reader, the metadata. */
bool tc_torch_find_name(tc_arena *arena, const tc_summary *summary, const tc_value *initializer,
                        tc_torch_name *out_name);
/* The module of a node of PyTorch's older exporter, from the path that is its name: "bert.encoder.layer.0"; "": its
 * name is no path of modules. script_names.c */
const char *tc_script_module(tc_arena *arena, const tc_node *node);
/* Whether the older exporter combined it from several parameters of a recurrent layer. script_names.c */
bool tc_script_is_joined(const tc_value *initializer);
/* Another name of the parameter `own`, which a call reads: its name in the module around the call (NULL: not known),
 * if the graph stores nothing under that name. NULL: none, as far as the file says. */
const tc_torch_input *tc_torch_tied_name(tc_arena *arena, const tc_torch_signature *signature, const tc_graph *graph,
                                         const char *module, const tc_torch_input *own);
/* Records that the initializer is the parameter of that name, replacing earlier records. For a tied parameter the
 * first known name counts. Both names are copied. */
void tc_torch_set_name(tc_pass_env *env, const char *initializer, const char *name, tc_torch_layout layout);

/* The model of a library (transformers, timm, diffusers) in the module that was exported. */
typedef struct tc_torch_wrapper {
    const char *prefix;     /* before its own names in those of the file: "m."; "": none */
    const char *class_name; /* "LlamaForCausalLM"; NULL: the file does not say */
} tc_torch_wrapper;
/* `parameters`: PyTorch's names of all that are known, which decide where the file says nothing else: what begins all
 * of them is the prefix, up to a name by which models of transformers begin. In the arena. torch_wrapper.c */
tc_torch_wrapper tc_torch_find_wrapper(tc_arena *arena, const tc_model *model, const char *const *parameters, size_t n);
#endif
