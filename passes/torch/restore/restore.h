/* restore.h: shared parts of the pass `restore`: the calls of a file, each with its nodes. */
#ifndef TC_RESTORE_H
#define TC_RESTORE_H
#include "passes/pass/pass.h"
#include "passes/torch/metadata/metadata.h"

/* One PyTorch call and the nodes of the main graph that the exporter made of it, in their order. Each has a first
 * operand and a first result; other operands may be absent. */
typedef struct tc_restore_call {
    tc_torch_call call;
    tc_node **nodes;
    size_t n, cap;
} tc_restore_call;

typedef struct tc_restore {
    tc_pass_env *env;
    tc_graph *graph;
    tc_arena *arena;                     /* the context's */
    const tc_torch_signature *signature; /* NULL: the file has none */
    tc_restore_call *calls;
    size_t n, cap;
    tc_map *by_result; /* a call's result -> its index in calls + 1 */
    bool trains; /* the pipeline makes a backward pass: a loss of training behaviour is an error, else a warning */
} tc_restore;

/* The first node of the call with this op of ai.onnx; NULL: none. */
tc_node *tc_restore_node(const tc_restore_call *call, const char *op_type);
/* PyTorch's name of the parameter or buffer that a call writes as "%p_m_fc_weight"; NULL: it is neither, or `word`
 * is NULL. */
const char *tc_restore_target(const tc_restore *r, const char *word);
/* Reports training behaviour that the file has lost for good, and an export that keeps it: an error of this text, or
 * a warning. */
tc_status tc_restore_refuse(const tc_restore *r, const tc_node *node, const char *text, const char *hint);

/* A call of batch normalization, in whichever mode. restore_batch_norm.c */
bool tc_is_batch_norm_call(const tc_torch_call *call);

/* The parts of the pass, one file each. */
tc_status tc_restore_batch_norm(tc_restore *r);
tc_status tc_restore_corners(tc_restore *r);
tc_status tc_restore_dora(tc_restore *r);
tc_status tc_restore_dropout(tc_restore *r);
tc_status tc_restore_faults(tc_restore *r);
tc_status tc_restore_losses(tc_restore *r);
tc_status tc_restore_renorm(tc_restore *r);
tc_status tc_restore_scatter(tc_restore *r);
tc_status tc_restore_smoothing(tc_restore *r);
tc_status tc_restore_stop(tc_restore *r);
#endif
