/* session.h: what a session is made of, and the hook that the tools add to it. Inside the runtime and its tools only. */
#ifndef RT_SESSION_H
#define RT_SESSION_H
#include "plan.h"
#include "tempo.h"

/* Brings a model of another opset to the canonical one. The runtime does not know the passes: tempo-run hands theirs in. */
typedef tc_status (*rt_upgrade_fn)(tc_ctx *ctx, tc_model *model);

/* A graph input and what is bound to it. */
typedef struct rt_input {
    tc_value *value;
    const tc_type *declared; /* as in the file */
    const void *data;        /* NULL: nothing is bound */
    tempo_dtype dtype;
    int rank;
    int64_t dims[TC_MAX_RANK];
    size_t bytes;
    void *decided;           /* copy of the elements that decided shapes in the plan, or NULL */
} rt_input;

struct tempo_session {
    tc_ctx ctx;
    tc_model *model;
    rt_input *inputs; /* [model->graph->n_inputs] */
    int threads;
    rt_random random;
    int64_t seed_tensor[2]; /* what `tempo.seed` is bound to when the caller binds nothing */
    rt_plan *plan;          /* NULL: not made, or out of date */
    bool ran;
    char *message;          /* of the last failure; malloc */
    tempo_event_fn event;
    void *event_user;
    tempo_live *live;       /* of the last memory report; in the plan's arena */
};

#define RT_SEED_INPUT "tempo.seed"

/* tempo_open with the upgrade hook (NULL: models must be at the canonical opset). */
tempo_status rt_open(const char *path, const tempo_options *options, rt_upgrade_fn upgrade, tempo_session **out_session);
/* Shapes of every value under the bound inputs. shapes.c */
tc_status rt_resolve_shapes(tempo_session *session, bool use_contents, bool *out_static);
#endif
