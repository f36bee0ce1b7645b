/* plan.h: a graph with static shapes becomes a flat list of launches over one arena. Inside the runtime only.
 *
 * Each value that a launch reads or writes has a storage; that of a view lies in its operand's, and parts may lie in
 * their whole (rt_parts). A storage is the arena's (an offset), an input's (the caller's bytes), a parameter's (the
 * file's bytes) or a state's (bytes that stay from run to run). A plan owns its model, a clone of the session's whose
 * shapes are resolved; the arena it borrows. */
#ifndef RT_PLAN_H
#define RT_PLAN_H
#include "compiler/pack/pack.h"
#include "collective.h"
#include "runtime/launch/launch.h"

typedef enum rt_home { RT_ARENA, RT_INPUT, RT_PARAMETER, RT_STATE } rt_home;

typedef struct rt_storage {
    const tc_value *value; /* that it was made for */
    rt_home home;
    uint32_t root;   /* storage that this one's bytes are in: itself unless it is a view or a part */
    uint32_t launch; /* that writes it; of the arena's */
    size_t at;       /* bytes from that storage's first */
    size_t bytes;
    const void *host;    /* of roots among inputs and parameters: where the host has the bytes, */
    void *data;          /* and where kernels read them: the same, or a copy on the device; only results are written */
    const int64_t *dims; /* of the value */
    bool averaged;       /* over ranks, when its launch has written it */
} rt_storage;

typedef struct rt_device_memory rt_device_memory; /* upload.c */

/* An output that replaces an input in the next run; sizes are those of the input. state.c */
typedef struct rt_state {
    uint32_t input, output; /* indices in the graph */
    size_t bytes;
    void *memory[2]; /* of the device, or NULL: the current elements; the place of the next run's, should they need
                      * one */
} rt_state;

/* How a plan updates a state. */
typedef struct rt_renewal {
    enum { RT_STAYS, RT_EXCHANGED, RT_COPIED } how; /* written over; written to memory[1]; copied there at the end */
    rt_storage *made;                               /* that holds the output */
} rt_renewal;

/* The part that the plans of one session share. One of them runs at a time, so one arena serves all. */
typedef struct rt_shared {
    const rt_device *device;
    tk_queue *queue;       /* of the device: launches run on it */
    tc_arena *arena;       /* lives as long as the session */
    const tc_model *model; /* the session's */
    tc_map *resident;      /* its initializers -> their copies on a device with memory of its own */
    tc_map *aligned;       /* bytes of a constant in the file -> their copy, where they lie at no address for kernels */
    unsigned char *memory; /* of the device: the arena of buffers, for the largest plan that was ready; NULL at first */
    size_t bytes;
    rt_state *states;
    uint32_t n_states;
    size_t cap_states;
    uint32_t *averaged; /* [n_averaged] outputs whose mean over all ranks is wanted: indices in the graph */
    uint32_t n_averaged;
    size_t cap_averaged;
    bool average_updates;            /* and the gradients of optimizers, which need not be outputs */
    const rt_collective *collective; /* how ranks reach each other; NULL: by the device */
    int ranks;                       /* that the session has joined, with itself; 0: none */
    int rank;
    double patience; /* seconds to wait for them */
    bool has_left;   /* it left them when a run failed */
    bool agreed;     /* with them about the averaged values */
    bool dry; /* no plan will run: the numbers of parameters need not be there; a node that cannot run is an error among
               * the context's, but planning goes on */
    bool check_memory; /* plans have checks */
    bool gaps;         /* dry: the shapes of some nodes are not known, so that the plan places nothing */
} rt_shared;

/* The source of the address of a launch's operand or result. */
typedef struct rt_place {
    rt_arg *arg;
    const rt_storage *storage;
} rt_place;

typedef struct rt_checks rt_checks;       /* check_memory.c */
typedef struct rt_averaging rt_averaging; /* average.c */

/* All launches of a run as one piece of the device's work, for the addresses that it was made with: states that change
 * places (RT_EXCHANGED) lead back to the same addresses every second run. exec.c */
typedef struct rt_recording {
    void *work;     /* NULL: none */
    uint64_t where; /* a number for the addresses */
} rt_recording;
enum { RT_RECORDINGS = 2 };

typedef struct rt_plan {
    rt_launcher launcher; /* of its launches; arena dies with the plan */
    tc_model *model;
    const tc_graph *graph; /* the model's */
    rt_shared *shared;
    rt_launch *launches;
    uint32_t n_launches;
    rt_storage *storages;
    uint32_t n_storages;
    tc_map *index;           /* tc_value -> index + 1 of its storage */
    tc_plan_problem problem; /* its operations are the launches, its buffers the storages: of other homes, empty ones */
    tc_plan_packing packing;
    size_t cap_choices; /* of the problem's */
    rt_place *places;   /* [n_places] of every operand and result, those that lie in inputs first */
    size_t n_places, n_input_places;
    rt_device_memory *block;        /* inputs, tables; NULL where the device reads the memory of the host */
    void **downloads;               /* [n_storages] on the host, of downloaded bytes */
    rt_device_memory **host_blocks; /* a list of what the device gave for these */
    rt_renewal *renewals;           /* [shared->n_states] */
    const tc_value **averaged;      /* [n_averaged] values that their mean over all ranks replaces */
    uint32_t n_averaged;
    uint32_t n_bound;            /* the first storages are those of bound inputs, in the order of the graph */
    const unsigned char *memory; /* the arena that addresses are set for, or NULL */
    rt_averaging *averaging;     /* NULL: nothing is averaged over ranks */
    rt_checks *checks;           /* NULL: runs are not checked */
    bool ran;                    /* without a recording: from now on, runs are recorded where the device can */
    rt_recording recordings[RT_RECORDINGS];
} rt_plan;

/* Makes the plan, which takes over the model, also on failure. Types of all values must be static. `bound[i]`: graph
 * input i is bound; else its default serves. `random` and `shared` outlive the plan. TC_UNSUPPORTED names the node that
 * has no kernel. */
tc_status rt_plan_create(tc_ctx *ctx, tc_model *model, const rt_random *random, const bool *bound, rt_shared *shared,
                         rt_plan **out_plan);
void rt_plan_destroy(rt_plan *plan); /* NULL is fine */
/* Makes the plan the one that may run: takes memory where there is too little, and sets every address that changed.
 * `inputs[i]` is the memory bound to graph input i: bytes of its type; borrowed until the next call. set_addresses.c */
tc_status rt_plan_ready(tc_ctx *ctx, rt_plan *plan, const void *const *inputs);
/* The present arena serves the plan as well. set_addresses.c */
bool rt_plan_fits(const rt_plan *plan);
/* A graph output, input or parameter: dims live as long as the plan. */
struct tempo_tensor;
void rt_plan_tensor(const rt_plan *plan, const tc_value *value, struct tempo_tensor *out_tensor);
size_t rt_plan_bytes(const rt_plan *plan, const tc_value *value);
/* The storage of a value that a launch reads or writes, or of a parameter or input, and its root; NULL: there is
 * none. */
rt_storage *rt_plan_storage(const rt_plan *plan, const tc_value *value);
rt_storage *rt_plan_root(const rt_plan *plan, const tc_value *value);
static inline rt_storage *rt_storage_root(const rt_plan *plan, const rt_storage *s) {
    while (&plan->storages[s->root] != s)
        s = &plan->storages[s->root];
    return &plan->storages[s->root];
}

/* Gives every storage of the arena and every workspace its offset. place_buffers.c */
tc_status rt_place_buffers(tc_ctx *ctx, rt_plan *plan);
/* Where the host has the bytes of an input or parameter: kernels read them there, or in a copy. */
static inline void rt_set_host(const rt_plan *plan, rt_storage *s, const void *host) {
    union {
        const void *in;
        void *out;
    } address = {.in = host};
    s->host = host;
    if (plan->shared->device->host_memory || s->home == RT_STATE) /* a state is on the device */
        s->data = address.out;
}

/* Lists the addresses that rt_plan_ready will set. set_addresses.c */
void rt_find_addresses(rt_plan *plan);

/* Where a value is on the device. */
void *rt_plan_address(const rt_plan *plan, const tc_value *value);

/* Decides how each state is updated, before buffers are placed. TC_BAD_INPUT: the two of a pair differ in type. */
tc_status rt_place_states(tc_ctx *ctx, rt_plan *plan);
/* Whether all operands of the launch that lie in `root` are ones that the result may lie over. */
bool rt_only_marked_read(const rt_plan *plan, const rt_launch *launch, uint32_t result, const rt_storage *root);
/* Takes the memory that renewing needs. renew_states.c */
tc_status rt_ready_states(tc_ctx *ctx, rt_plan *plan);
/* Behind a run: the new elements become the state. True: some lie elsewhere now (memory[0]). renew_states.c */
bool rt_renew_states(rt_plan *plan);
/* Memory of the device for the elements of a state; TC_LIMIT where there is too little. */
tc_status rt_take_state(tc_ctx *ctx, rt_shared *shared, const rt_state *state, void **memory);
void rt_free_state(const rt_shared *shared, rt_state *state);
void rt_free_states(rt_shared *shared);

/* Lists the values that are averaged over ranks, once the plan's graph is there. average.c */
void rt_list_averaged(rt_plan *plan);
/* The same values as a set, with the values that they view; NULL: there are none. average.c */
tc_map *rt_averaged_values(const rt_plan *plan);
/* Moves nodes that wait for means back, where there are other ranks: reductions then run beside the backward pass even
 * where each gradient is read right after it is made. Called before there are launches. delay_updates.c */
void rt_delay_updates(rt_plan *plan);
/* The error of a run whose peer ranks were lost. average.c */
tc_status rt_tell_deserted(tc_ctx *ctx, const rt_plan *plan);
extern size_t rt_bucket_bytes; /* reduced at once; tests take less. average.c */
/* A number that differs where ranks would mix tensors up, or wait for each other for ever; not 0. average.c */
double rt_averages_digest(const rt_plan *plan);
/* Marks values that are averaged over ranks, before buffers are placed: such a value neither lies in a whole that
 * others read nor has parts that they do. TC_UNSUPPORTED: a value is no float, or nothing computes it. average.c */
tc_status rt_find_averages(tc_ctx *ctx, rt_plan *plan);
/* Between which launches, where buffers are placed. */
void rt_schedule_averages(rt_plan *plan);
/* Queues the work before a launch, or, for their number, after the last one; *at is 0 before the first. False: a mean
 * does not come; devices report that at the end. */
bool rt_queue_averages(const rt_plan *plan, uint32_t launch, uint32_t *at);

/* Copies to a device with memory of its own: all but inputs, once; inputs, before each run. upload.c */
tc_status rt_upload_plan(tc_ctx *ctx, rt_plan *plan);
void rt_upload_inputs(const rt_plan *plan);
/* Where the host can read a value of `storage` that is at `memory` on the device; until the next call or run. */
void *rt_download(const rt_plan *plan, const rt_storage *storage, void *memory);
void rt_free_blocks(rt_plan *plan);
/* Makes libraries allocate before memory is counted. TC_LIMIT: it cannot. upload.c */
tc_status rt_make_ready(tc_ctx *ctx, const rt_shared *shared);
/* TC_LIMIT, with both figures, when `what` takes more bytes than are free on the device. */
tc_status rt_check_room(tc_ctx *ctx, const rt_shared *shared, const char *what, uint64_t bytes);

/* Of a session that checks memory, on a device that computes in the host's: after each buffer and workspace there is
 * room of RT_ALIGN bytes at least. check_memory.c When a plan's buffers are placed: */
void rt_make_checks(rt_plan *plan);
/* Before the first launch of a run. Lives are those that the plan's problem states then. */
void rt_begin_checks(const rt_plan *plan);
/* Before launch `at`, and once after the last one, where `at` is their number: checks that launch `at` - 1 wrote within
 * its results and its workspace, poisons bytes that are free from there on, and checks that operands and results of
 * launch `at` are live. TC_BUG names the node and the value. */
tc_status rt_check_step(tc_ctx *ctx, const rt_plan *plan, uint32_t at);

/* Called after each launch. */
typedef void (*rt_event_fn)(void *user, const rt_launch *launch, double start, double seconds);
/* Runs every launch, in order. Allocates nothing but the words of an error and, for a device that has them, recordings.
 * exec.c */
tc_status rt_execute(tc_ctx *ctx, rt_plan *plan, rt_event_fn event, void *user);
/* Makes an error of the result of the device's wait. `launch` NULL: of no launch in particular. exec.c */
tc_status rt_explain(tc_ctx *ctx, const rt_plan *plan, const rt_launch *launch, tk_status status);
void rt_forget_recordings(rt_plan *plan);
#endif
