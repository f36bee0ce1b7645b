/* session.h: what a session is made of, and the hook that the tools add to it. Inside the runtime and its tools only.
 */
#ifndef RT_SESSION_H
#define RT_SESSION_H
#include "plan.h"
#include "tempo.h"

/* What the runtime cannot do alone, since it does not know the passes: tempo-run hands theirs in. Each may be NULL. */
typedef struct rt_hooks {
    tc_status (*upgrade)(tc_ctx *ctx, tc_model *model); /* brings a model to the canonical opset */
    /* the function body of an ai.tempo op whose operands' types are known; NULL: none */
    tc_status (*body)(tc_ctx *ctx, tc_model *model, const tc_node *node, tc_function **out_function);
} rt_hooks;

/* A graph input and what is bound to it. */
typedef struct rt_input {
    tc_value *value;
    const tc_type *declared; /* as in the file */
    const void *data;        /* NULL: nothing is bound */
    tempo_dtype dtype;
    int rank;
    int64_t dims[TC_MAX_RANK];
    size_t bytes;
    void *decided; /* copy of the elements that decided shapes in the plan, or NULL */
} rt_input;

struct tempo_session {
    tc_ctx ctx;
    rt_hooks hooks;
    tc_model *model;
    rt_input *inputs; /* [model->graph->n_inputs] */
    tk_queue *queue;  /* that its launches run on */
    rt_random random;
    int64_t seed_tensor[2]; /* what `tempo.seed` is bound to when the caller binds nothing */
    rt_plan *plan;          /* NULL: not made, or out of date */
    bool ran;
    bool unrolled; /* the graph's loops and branches are those of the inputs that were bound: no others can be */
    char *message; /* of the last failure; malloc */
    tempo_event_fn event;
    void *event_user;
    tempo_live *live; /* of the last memory report; in the plan's arena */
};

/* tempo_open with hooks (NULL: none; models must then be at the canonical opset). */
tempo_status rt_open(const char *path, const tempo_options *options, const rt_hooks *hooks,
                     tempo_session **out_session);
/* The same for a model at hand, which the session takes over, also on failure; messages name `path`. */
tempo_status rt_open_model(tc_model *model, const char *path, const tempo_options *options, const rt_hooks *hooks,
                           tempo_session **out_session);
/* Makes the model one that kernels can run, as far as that takes no shapes. make_runnable.c */
tc_status rt_make_runnable(tempo_session *session);
/* Replaces nodes that no kernel does by their functions; `typed`: types are known, and bodies that depend on them
 * come in too. make_runnable.c */
tc_status rt_inline_missing(tempo_session *session, bool typed, bool *out_changed);
/* Which inputs' elements may decide shapes: a plan that they decided is one for these elements alone. */
typedef enum rt_decide { RT_SHAPES_ONLY, RT_INTEGERS, RT_ALL_ELEMENTS } rt_decide;
/* Shapes of every value under the bound inputs. shapes.c */
tc_status rt_resolve_shapes(tempo_session *session, rt_decide decide, bool *out_static);
#endif
