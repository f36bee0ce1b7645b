/* session.h: the parts of a session, and the hooks that the tools add to it. Inside the runtime and its tools only. */
#ifndef RT_SESSION_H
#define RT_SESSION_H
#include "compiler/memory/memory.h"
#include "compiler/base/base.h"
#include "runtime/plan/plan.h"
#include "runtime/tempo.h"

/* Functions that the runtime lacks, since it does not know the passes: tempo-run hands theirs in. Each may be NULL. */
typedef struct rt_hooks {
    tc_status (*upgrade)(tc_ctx *ctx, tc_model *model); /* brings a model to the canonical opset */
    /* the function body of an ai.tempo op whose operands' types are known; NULL: none */
    tc_status (*body)(tc_ctx *ctx, tc_model *model, const tc_node *node, tc_function **out_function);
    const rt_device *device; /* where the session computes; NULL: on the CPU */
    int device_number;       /* which one of its kind */
    /* Makes the session a rank among others, on a device that computes in the host's memory; it outlives the session.
     * NULL: it is alone, or joins by the device */
    const rt_collective *collective;
} rt_hooks;

/* A graph input and its bound tensor. */
typedef struct rt_input {
    const tc_value *value;   /* of the session's model */
    const tc_type *declared; /* as in the file */
    const char *type;        /* the same as text */
    const void *data;        /* NULL: nothing is bound */
    tempo_dtype dtype;
    int rank;
    int64_t dims[TC_MAX_RANK];
    size_t bytes;
    bool decided; /* its elements decided shapes in the plan that was made last */
    bool kept;    /* a state: data is the device's */
} rt_input;

/* Elements of an input that decided shapes: the plan is one for these alone. */
typedef struct rt_decided {
    uint32_t input;
    size_t bytes;
    const void *data; /* a copy */
} rt_decided;

/* A plan and the inputs that it was made for, in the plan's arena. */
typedef struct rt_kept {
    rt_plan *plan;
    const int64_t *shapes; /* [n_shapes] types and dims of all bound inputs in one row */
    size_t n_shapes;
    const rt_decided *decided; /* [n_decided] */
    size_t n_decided;
} rt_kept;

enum { RT_KEPT_PLANS = 16 };
/* Seconds that ranks wait for each other by default: a rank may write a checkpoint meanwhile. */
#define RT_PATIENCE 120

struct tempo_session {
    tc_held held;   /* by a recovery point of the caller, should it have one */
    tc_held owned;  /* a list: arenas and models */
    tc_status lost; /* TC_OK, or the status that cut a call short: only tempo_message and tempo_close work from then
                     * on */
    char why[320];  /* the message then */
    tc_ctx ctx;     /* its arena is scratch: emptied when the next call begins */
    tc_arena *arena;
    rt_hooks hooks;
    bool tf32, no_cudnn;
    const char *device_name;   /* as named by the caller; NULL: hooks.device, or the first; borrowed while it opens */
    tc_model *model;           /* as opened: runs add nothing to it, so that each plan can start from a clone */
    rt_input *inputs;          /* [model->graph->n_inputs]; NULL: the model could not be opened */
    tc_map *by_name;           /* -> rt_input */
    tc_map *outputs_by_name;   /* -> index + 1 */
    const char **output_types; /* [model->graph->n_outputs] as text */
    rt_random random;          /* also the value of `tempo.seed` when the caller binds nothing */
    rt_shared shared;
    rt_kept kept[RT_KEPT_PLANS]; /* [n_kept] the one used last comes first */
    size_t n_kept;
    bool current;        /* the first one is for the shapes that are bound now */
    bool moved;          /* bytes have been bound since it was made ready */
    bool ran;            /* and there are its outputs */
    uint64_t plans_made; /* since the session was opened; for tests */
    char *message;       /* of the last failure; malloc */
    tempo_event_fn event;
    void *event_user;
};

/* The body of a call of tempo.h: `work`, an expression of type tc_status, in a recovery point, and the return of its
 * status. Memory that it took and did not free is the session's. Use it in a function of its own that changes no
 * variable. */
#define RT_CALL(session, work)                                                                                         \
    do {                                                                                                               \
        tc_recovery point_;                                                                                            \
        if (TC_RECOVERS(&point_))                                                                                      \
            return rt_end(session, &point_, rt_begin(session) ? (work) : (session)->lost);                             \
        return rt_lose(session);                                                                                       \
    } while (0)
/* Forgets the last message; false: the session is lost. */
bool rt_begin(tempo_session *session);
/* Makes a message of a failure's diagnostics. */
tempo_status rt_end(tempo_session *session, tc_recovery *point, tc_status status);
/* After the failure that ended the point. */
tempo_status rt_lose(tempo_session *session);

/* tempo_open with hooks (NULL: none; models must then be at the canonical opset). */
tempo_status rt_open(const char *path, const tempo_options *options, const rt_hooks *hooks,
                     tempo_session **out_session);
/* The same for a given model, which the session takes over, also on failure; messages name `path`. */
tempo_status rt_open_model(tc_model *model, const char *path, const tempo_options *options, const rt_hooks *hooks,
                           tempo_session **out_session);
/* Makes the model one that kernels can run, as far as that takes no shapes. make_runnable.c */
tc_status rt_make_runnable(tempo_session *session);
/* Turns masks that are drawn in standard ops into ONNX Runtime's, before shapes are known. TC_UNSUPPORTED where a draw
 * in standard ops is not known to be a mask with a seed. ort_masks.c */
tc_status rt_draw_ort_masks(tempo_session *session);
/* Replaces nodes without a kernel by their functions; `typed`: types are known, and bodies that depend on them are
 * inserted, too. make_runnable.c */
tc_status rt_inline_missing(tempo_session *session, tc_model *model, bool typed, bool *out_changed);
/* Gives every value of `model`, a clone of the session's, its shape under the bound inputs, unrolls branches and loops,
 * and inlines nodes without a kernel. `decides[i]`: the elements of input i are used, too. *out_static: every shape is
 * known. resolve_shapes.c */
tc_status rt_resolve_shapes(tempo_session *session, tc_model *model, const bool *decides, bool *out_static);
/* Facts about a run before it. */
typedef struct rt_foreseen {
    bool planned;           /* all shapes are known, and so the next two: */
    uint64_t arena, bound;  /* bytes that it allocates for all that it computes; the most that are live at one time */
    uint64_t tables;        /* and about how much more it takes, inputs and weights aside, for graph and plan */
    uint64_t work;          /* of placing it, as tc_plan_packing counts */
    const tc_diag *missing; /* [n_missing] why nodes cannot run: no kernel (counted as one without workspace), or a
                             * shape that depends on data. Until the next call */
    size_t n_missing;
} rt_foreseen;
/* Of a session that never ran, for inputs of their declared types; where these are open, of the shapes that
 * rt_take_shape gave them. On any number of threads. Nothing is mapped or allocated. `elements`: shapes may depend on
 * elements of small inputs whose `data` of an rt_input is set. Where shapes are unknown or contradict each other the
 * result is a failure with a message, or the nodes that cannot run in any case. `nodes` (may be NULL) gets the memory
 * of each launch, where there is a plan. Afterwards the session can only be closed: tempo_close. footprint.c */
tempo_status rt_foresee(tempo_session *session, bool elements, const tc_node_memories *nodes,
                        rt_foreseen *out_foreseen);
/* Finds or makes the plan for the bound inputs, and makes it ready. prepare.c */
tc_status rt_prepare(tempo_session *session);
static inline const rt_plan *rt_current_plan(const tempo_session *session) { return session->kept[0].plan; }
/* The origin of a value that is not finite; strings and dims live until the next call. */
typedef struct rt_nonfinite {
    bool found;
    double number;        /* NaN or an infinity: */
    const char *value;    /* in this one, */
    const char *type;     /* "float[2,3]" */
    int64_t element;      /* the first of its elements, row-major, that is NaN, or where none is, an infinity */
    int rank;             /* of the value */
    const int64_t *dims;  /* [rank] */
    const char *op;       /* made by this node, whose operands had no such value; */
    const char *node;     /* NULL: by none, it is in an input, a parameter or a state */
    const char *infinite; /* an operand of the node that had infinities, where it made NaN; NULL: none had */
} rt_nonfinite;
/* Runs once more with the bound inputs, looking at every float after each launch, and finds the origin of the first
 * symptom in this order: an operand of a node that ends the run; an output of one element (a loss); a NaN in any
 * output, or any value that is not finite in a gradient or in the new value of a state; a NaN in any result. From there
 * it follows operands of the same kind back to the node that has none: infinities of masks, and a NaN without effect,
 * are skipped. `found` is false where all these are finite: on a rank that got a NaN from others, say, since no mean is
 * made over ranks. A failure is one of the run itself. The session's states must be set as before the failed run, or as
 * it left them: a run that ends in the middle has updated some. Afterwards states are undefined, and there are no
 * outputs. find_nonfinite.c */
tempo_status rt_find_nonfinite(tempo_session *session, rt_nonfinite *out_found);
/* "Log 'node' made NaN: element [1,2] of its result 'y', float[2,3]", of the origin found, in the arena. */
const char *rt_nonfinite_text(tc_ctx *ctx, const rt_nonfinite *found);
/* Pairs outputs with inputs as the file says (marks.h: tempo.keep); pairs of tempo_keep go before it, and unknown names
 * are ignored. state.c */
tempo_status rt_keep_as_given(tempo_session *session);
tc_status rt_take_given(tempo_session *session); /* the same inside of a call */
/* First values for the states that have none: defaults, or zeros where the file says so (marks.h: tempo.zero).
 * TC_BAD_INPUT where there is neither. state.c */
tc_status rt_begin_states(tempo_session *session);
/* Forgets all plans, or just what the device has recorded of them. prepare.c */
void rt_drop_plans(tempo_session *session);
void rt_forget_all_recordings(tempo_session *session);
/* From the next run on, the gradients of the graph's optimizers are replaced by their means over all ranks. Returns how
 * many there are. join.c */
uint32_t rt_average_updates(tempo_session *session);
/* TC_USAGE where a session that had joined others runs without them now. join.c */
tc_status rt_check_ranks(tempo_session *session);
/* Before the first run with others: TC_USAGE where they average other values. On failure it has left them. join.c */
tc_status rt_agree(tempo_session *session);
/* Leaves the other ranks, if there are any: they wait in vain. join.c */
void rt_part(tempo_session *session);
/* TC_BAD_INPUT unless the tensor may be bound to the input. session.c */
tc_status rt_check_tensor(tempo_session *session, const rt_input *input, const tempo_tensor *tensor);
/* The input is of this type and shape from now on. session.c */
void rt_take_shape(tempo_session *session, rt_input *input, const tempo_tensor *tensor);
/* False: there is no output of that name. session.c */
bool rt_find_output(const tempo_session *session, const char *name, uint32_t *out_index);
/* For callers inside of a recovery point: tempo_close, and where the session was lost (by the newest failure), that
 * failure ends the caller, too. session.c */
void rt_close_or_fail(tempo_session *session);
/* An input of the model by its name; NULL: there is none. */
rt_input *rt_find_input(const tempo_session *session, const char *name);
#endif
