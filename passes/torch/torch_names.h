/* torch_names.h: which parameters of PyTorch's the initializers of a file are, where its dynamo exporter tells, and
 * under which name. Exporters rename parameters whose layout they change: "val_20" is the transpose of "m.q.weight". */
#ifndef TC_TORCH_NAMES_H
#define TC_TORCH_NAMES_H
#include "../pass.h"

/* How an initializer comes from the parameter that it stands for. */
typedef enum tc_torch_layout {
    TC_TORCH_AS_IT_IS,
    TC_TORCH_TRANSPOSED, /* of rank 2 */
    TC_TORCH_ROWS,       /* some of a table's rows */
    TC_TORCH_OTHER,      /* the same elements, in a way that the file does not tell */
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
void tc_torch_set_name(tc_pass_env *env, const char *initializer, const char *name, tc_torch_layout layout);
#endif
