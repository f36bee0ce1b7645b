/* torch_names.h: which parameters of PyTorch's the initializers of a file are, where its dynamo exporter tells, and
 * under which name. Exporters rename parameters whose layout they change: "val_20" is the transpose of "m.q.weight". */
#ifndef TC_TORCH_NAMES_H
#define TC_TORCH_NAMES_H
#include "passes/pass/pass.h"
#include "torch_signature.h"

#define TC_PARAMETER_KEY "tempo.parameter."

/* How a parameter comes from the initializer that stands for it. */
typedef enum tc_torch_layout {
    TC_TORCH_AS_IT_IS,
    TC_TORCH_TRANSPOSED, /* of rank 2 */
    TC_TORCH_FLATTENED,  /* the parameter has one axis */
    TC_TORCH_RESHAPED,   /* the same elements in the same order; the shape is not known */
    TC_TORCH_ROWS,       /* the initializer has some of a table's rows, or another part */
    TC_TORCH_SHIFTED,    /* the initializer is the parameter plus a number that the file does not keep */
    TC_TORCH_OTHER,      /* the same elements in an order that the file does not tell */
} tc_torch_layout;

typedef struct tc_torch_name {
    const char *name; /* PyTorch's */
    tc_torch_layout layout;
} tc_torch_name;

/* Sets value->learned of every initializer that the file tells it of, and env->summary->torch_names. Called once,
 * before any pass. */
void tc_torch_record(tc_pass_env *env, const tc_model *model);
/* What the initializer of that name stands for; NULL: the file does not tell, or it has the parameter's own name. */
const tc_torch_name *tc_torch_name_of(const tc_summary *summary, const char *initializer);
/* PyTorch's name of an initializer, else its own. */
const char *tc_torch_name_or_own(const tc_summary *summary, const char *initializer);
/* "val_20 (m.q.weight, transposed)", or the initializer's own name where nothing more is to be told. In the arena. */
const char *tc_torch_full_name(tc_arena *arena, const tc_summary *summary, const char *initializer);
/* Keeps what the initializers stand for in the model's metadata, for those that come after:
 *
 *   tempo.parameter.INITIALIZER   PyTorch's name, and behind a blank "transposed", "flattened", "reshaped", "part",
 *                                 "shifted" or "reordered"
 */
void tc_torch_keep_names(tc_pass_env *env, tc_model *model, tc_value *const *initializers, size_t n);
/* The same, read from such metadata; false: they say nothing of it, and it has its own name. The name is in `arena`. */
bool tc_torch_kept_name(tc_arena *arena, const tc_model *model, const char *initializer, tc_torch_name *out_name);
/* What an initializer of a file stands for whose name PyTorch's older exporter made up, as the node tells that reads
 * it; false: it tells nothing. The name is in `arena`. script_names.c */
bool tc_script_name(tc_arena *arena, const tc_value *initializer, tc_torch_name *out_name);
/* The older exporter has put it together from several parameters of a recurrent layer. script_names.c */
bool tc_script_is_joined(const tc_value *initializer);
/* Another name of the parameter `own`, which a call reads: the one that it has in the module around the call (NULL: not
 * known), where nothing in the graph is stored under that name. NULL: none, so far as the file tells. */
const tc_torch_input *tc_torch_tied_name(tc_arena *arena, const tc_torch_signature *signature, const tc_graph *graph,
                                         const char *module, const tc_torch_input *own);
/* Says that the initializer stands for the parameter of that name, in place of what was said of it before; of the names
 * of a tied parameter the first one that is known is taken. Both names are copied. */
void tc_torch_set_name(tc_pass_env *env, const char *initializer, const char *name, tc_torch_layout layout);
#endif
