/* parameter_uses.h: the parameters that an initializer stood for in the exported model. Exporters store equal
 * parameters once and one parameter several times; the nodes that use them still show which parameter was meant. */
#ifndef TC_PARAMETER_USES_H
#define TC_PARAMETER_USES_H
#include "passes/torch/metadata/metadata.h"

/* Uses of an initializer that mean one parameter. */
typedef struct tc_use_group {
    tc_use **uses; /* in the order of the nodes; each reads the initializer or a result computed from it by nodes
                      without a call */
    size_t n;
    const char *name;   /* of the parameter; NULL: the file does not say */
    tc_learned learned; /* its kind according to the file */
} tc_use_group;

typedef struct tc_use_groups {
    tc_use_group *groups; /* the first group keeps the initializer: it has its name, else its first use */
    size_t n;
    bool recorded; /* the file names the parameters; else the groups follow from the graph's structure */
    bool homeless; /* the initializer has the name of a parameter that belongs to none of the groups: none keeps it */
} tc_use_groups;

/* Groups the uses of an initializer of the main graph; one group if a nested graph uses it, too. `uniform`: all its
 * elements are equal, as in fresh biases and scales; only then does structure count. Arrays live in the arena. */
tc_use_groups tc_group_uses(tc_arena *arena, tc_torch_program *program, const tc_value *value, bool uniform);

/* How an initializer is stored, by its uses. */
typedef enum tc_stored { TC_STORED_UNTOLD, TC_STORED_AS_IS, TC_STORED_TRANSPOSED } tc_stored;

/* The parameters, by name, that the initializer is stored for; *out_n is 0 if the file does not say. `out_stored` is
 * set if all uses mean one parameter. */
const char **tc_parameter_names(tc_arena *arena, tc_torch_program *program, const tc_value *value, size_t *out_n,
                                tc_stored *out_stored);

/* A name that an exporter made up (val_12, onnx::MatMul_345), not that of a parameter. */
bool tc_name_is_generated(const char *name);
#endif
