/* rules.h: rewrite rules as text. *.rules files are embedded at build time (embed.c); docs/how-it-works/rules.md
 * describes the language. A rule matches a subgraph (several roots, optional nodes, alternatives, commutative operands)
 * and replaces it. */
#ifndef TC_RULES_H
#define TC_RULES_H
#include "passes/pass/pass.h"

typedef struct tc_rule_set tc_rule_set;

/* Parses and compiles rules; a mistake is TC_BAD_INPUT with file:line:column. Rules live in the set's own arena. */
tc_status tc_rules_parse(tc_ctx *ctx, const char *text, const char *file, tc_rule_set *set);
tc_rule_set *tc_rules_create(void);
void tc_rules_destroy(tc_rule_set *set);
/* Adds the embedded file of that name ("canonical.rules"; NULL: all), then those of --rules=FILE when `with_user` is
 * set. */
tc_status tc_rules_load(tc_pass_env *env, const char *name, bool with_user, tc_rule_set *set);

/* The text of `function ai.tempo.NAME ... {...}` in an embedded file, from NAME on; NULL if there is none. Lives in
 * `arena`. */
tc_status tc_rules_function(tc_ctx *ctx, tc_arena *arena, const char *name, const char **out_text);
/* Adds the rules of a file of the user. TC_IO if it cannot be read. */
tc_status tc_rules_load_file(tc_ctx *ctx, const char *path, tc_rule_set *set);

/* Applies the set until nothing matches or the rewrite limit is reached (then there is a warning, and the set is not
 * applied again). Time is linear in the graph's size for a fixed set. New nodes get types by tc_infer_node.
 * Statistics go to env->summary; --disable and --explain apply. */
tc_status tc_rules_apply(tc_pass_env *env, tc_graph *graph, tc_rule_set *set, uint32_t *out_rewrites);

/* Removes all rules except those for which `wanted` is true. */
void tc_rules_keep(tc_rule_set *set, bool (*is_wanted)(const void *user, const char *name), const void *user);
/* The last node of the forward pass, for the guards `kept_for` and `needed_late`; before it is set they are false. */
void tc_rules_set_forward_end(tc_rule_set *set, const tc_node *end);
/* Applies the rules one after another, each until nothing matches, and adds the decrease of `measure` (bytes kept)
 * to its bytes_freed. */
typedef tc_dim (*tc_rules_measure)(const tc_graph *graph, void *user);
tc_status tc_rules_apply_each(tc_pass_env *env, tc_graph *graph, tc_rule_set *set, tc_rules_measure measure,
                              void *user);
/* Sweeps go from the end of the graph to its start: if patterns contain one another, the largest is matched first. */
void tc_rules_from_end(tc_rule_set *set);

/* Adds the numbers of matches and tries to env->summary and resets them. tc_rules_apply calls it; users of gradient
 * rules call it themselves. */
void tc_rules_stats(tc_pass_env *env, tc_rule_set *set);

/* Warns of names in --disable and --explain that no set had a rule for. Called at the end of a pipeline that applied
 * sets. */
void tc_rules_check_names(tc_pass_env *env);

/* Whether a value leads to a softmax of rows through scales, masks, biases and views, step by step. guards_scores.c */
bool tc_leads_to_softmax(const tc_value *value);

/* Gradient rules: `gradient Op (x, y?; out; dout) => (dx, dy) { ... }`. Builds the nodes of the gradient of `node`
 * at the end of its graph: `douts` [n_outputs] may hold NULLs; fills `dins` [n_inputs], NULL if there is no gradient
 * or `needed` is false. Only nodes that needed results depend on are built. The first rule of the op in the set
 * whose required names are there and whose guards hold is used; rules of --rules=FILE come before built-in ones.
 * *out_found is false if there is none. A result of `node` that the rule names without `?` and that the node lacks
 * is added to the node (the statistics of LayerNormalization). */
tc_status tc_gradient_rule_apply(tc_pass_env *env, const tc_rule_set *set, tc_node *node, tc_value *const *douts,
                                 const bool *needed, tc_value **dins, bool *out_found);
bool tc_gradient_rule_exists(const tc_rule_set *set, const tc_node *node); /* whatever its guards say */
/* Whether a rule of the node's op has a gradient of operand `index` among its results. */
bool tc_gradient_rule_reaches(const tc_rule_set *set, const tc_node *node, uint32_t index);
/* The domain and the name of each op that has gradient rules, once, in no order: false at the end. *cursor begins as 0.
 */
bool tc_gradient_rule_next(const tc_rule_set *set, size_t *cursor, const char **out_domain, const char **out_op);

/* Undoes broadcasting: *out_value is `grad` summed to the shape of `like` (grad itself if the shapes are provably
 * equal). Nodes go to the end of grad's graph, labelled `label`. Axes are static if dims show them, else computed
 * from both shapes at run time. */
tc_status tc_reduce_like(tc_ctx *ctx, tc_value *grad, tc_value *like, const char *label, tc_value **out_value);

/* The row of that name in env->summary, added where there is none. explain.c */
tc_rule_stat *tc_summary_rule(tc_pass_env *env, const char *name);
/* Whether --disable names the rule, or row; whether --explain does, or says "all". explain.c */
bool tc_is_disabled(const tc_options *options, const char *name);
bool tc_is_explained(const tc_options *options, const char *name);

/* Writes the name and the meaning of every rule that is built in, file by file. list.c */
tc_status tc_rules_list(tc_ctx *ctx, FILE *out);
#endif
