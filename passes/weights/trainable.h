/* trainable.h: which initializers are trained, and along which values gradients have to be computed for that. */
#ifndef TC_TRAINABLE_H
#define TC_TRAINABLE_H
#include "passes/pass/pass.h"
#include "passes/rules/rules.h"

/* How the loss depends on a value; bits. */
enum {
    TC_FLOW_REACHES = 1, /* the loss depends smoothly on it */
    TC_FLOW_DIRECT = 2,  /* and not only as a mask or scale of softmax scores, or as a running statistic */
    TC_FLOW_SCORES = 4,  /* the loss depends on it as on a mask or scale of softmax scores */
    TC_FLOW_NEEDED = 8,  /* a trained initializer's gradient goes through it */
    TC_FLOW_DATA = 16,   /* it depends on inputs or random draws, not only on initializers and constants */
};

typedef struct tc_flow {
    uint8_t *bits; /* by value id */
    uint32_t n;
    tc_value **trained; /* the trained initializers, in the order of the file */
    size_t n_trained;
} tc_flow;

static inline bool tc_flow_has(const tc_flow *flow, const tc_value *value, int bit) {
    return value && value->id < flow->n && (flow->bits[value->id] & bit);
}

/* Follows the flow back from the loss, decides which initializers are trained (env->options,
 * env->summary->initializers), fills the summary's lists and marks the needed values. Types must be known. `rules`:
 * with all gradient rules. Arrays live in the context's arena. */
tc_status tc_trainable_select(tc_pass_env *env, const tc_rule_set *rules, tc_graph *graph, const tc_value *loss,
                              tc_flow *out_flow);

/* The same for passes before autodiff: no warnings, and the summary stays as it is. Fails if a file of --rules does. */
tc_status tc_trainable_preview(tc_pass_env *env, tc_graph *graph, const tc_value *loss, tc_flow *out_flow);

/* The flow from given values, which are `trained`, to the loss. In `arena`. */
void tc_flow_between(tc_arena *arena, const tc_rule_set *rules, const tc_graph *graph, const tc_value *loss,
                     tc_value *const *trained, size_t n_trained, tc_flow *out_flow);

/* The choice of --train and --freeze for an initializer, by its name or by PyTorch's. */
typedef enum tc_request { TC_REQUEST_NONE, TC_REQUEST_TRAIN, TC_REQUEST_FREEZE } tc_request;
tc_request tc_request_of(const tc_pass_env *env, const char *name);
/* It is frozen, or trained under the initializer's own name, not under that of the parameter it came from. */
bool tc_is_asked_as_stored(const tc_pass_env *env, const char *name);

/* The values that a node reads from outside: its operands, then, for nodes with nested graphs, the outer values that
 * these read (at most once each). In the arena. */
size_t tc_node_reads(tc_arena *arena, const tc_node *node, tc_value ***out_values);

/* Notes the file's initializers, before any pass makes more of them: those may be trained, others are constants. */
void tc_record_initializers(tc_pass_env *env, const tc_model *model);
/* The initializer of that name, which lives as long as the model, counts as the file's from now on; `tensor` NULL: it
 * is there no more. */
void tc_record_initializer(tc_pass_env *env, const char *name, const tc_tensor *tensor);
/* The same for an initializer that a pass has made to be trained, an adapter's or a new head's: it is trained also
 * where --lora freezes the file's own. */
void tc_record_made(tc_pass_env *env, tc_value *value);
bool tc_is_made(const tc_pass_env *env, const char *name);
/* --lora freezes all that the file has: neither what the exporter did to parameters matters, nor what it lost. */
bool tc_freezes_file(const tc_pass_env *env);
#endif
