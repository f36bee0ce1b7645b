/* shape.h: element types and shapes of every value, with symbolic dims, by the shape function of each op's row. */
#ifndef TC_SHAPE_H
#define TC_SHAPE_H
#include "compiler/contents/contents.h"
#include "compiler/ir/ir.h"
#include "compiler/ir/ops.h"

typedef struct tc_shape_ctx {
    tc_ctx *ctx;
    tc_model *model;
    tc_graph *graph;
} tc_shape_ctx;

/* Infers types and contents of all values of the graph and of nested graphs, in order. Every value that a known op
 * produces gets a type; a type given in the file is merged with the inferred one. A contradiction is TC_BAD_INPUT and
 * names the node. Results of unknown ops keep their types from the file. Runs on the canonical opset; before upgrade
 * use it only through tc_infer_node for nodes that are canonical already. */
tc_status tc_infer_graph(tc_ctx *ctx, tc_graph *graph);
/* The same, but `visit` sees each node of the graph itself before its results are inferred, when the types of its
 * operands are known: it may change the node, and insert others, with their types, before it. */
typedef tc_status (*tc_infer_visit)(void *user, tc_node *node);
tc_status tc_infer_graph_with(tc_ctx *ctx, tc_graph *graph, tc_infer_visit visit, void *user);
/* One node, whose operands' types are known: builders use it on each node that they create. */
tc_status tc_infer_node(tc_ctx *ctx, tc_node *node);
/* Forgets inferred types and contents of node outputs (file types too), so that inference starts from the inputs. */
void tc_forget_shapes(tc_graph *graph);
/* Gives the symbol `name` a value everywhere; run tc_infer_graph afterwards. */
void tc_substitute_symbol(tc_graph *graph, const char *name, int64_t value);

/* Both have known ranks and dims that are equal whatever symbols stand for. */
bool tc_same_shape(const tc_value *a, const tc_value *b);

/* For shape functions. */
tc_status tc_shape_set(tc_shape_ctx *sc, tc_node *node, uint32_t output, tc_dtype dtype, int rank, const tc_dim *dims);
tc_status tc_broadcast(tc_shape_ctx *sc, tc_node *node, int rank_a, const tc_dim *a, int rank_b, const tc_dim *b,
                       int *out_rank, tc_dim out_dims[TC_MAX_RANK]);
#endif
