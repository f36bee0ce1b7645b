/* cudart_state.h: what the parts of the runtime's double share: cudart_double.c (errors, devices, memory), cuda_work.c
 * (what streams have to do, and running it) and cudart_streams.c (streams, events, captures, graphs). A stream is a
 * list of steps that nobody touches before somebody waits: a host that reads too early reads what was there before. A
 * graph is such a list for several lanes, one for each stream that was captured; when it runs, a lane that forks off
 * runs when the others wait for it. */
#ifndef CUDART_STATE_H
#define CUDART_STATE_H
#include "cuda_work.h"

/* Notes the error, if it is one, as the last, and gives it back. */
cudaError_t cudart_give(cudaError_t error);
/* cudaSuccess, or why no call can do anything: there is no device, or a kernel failed. Noted. */
cudaError_t cudart_ready(void);
/* From here on every call fails so. */
void cudart_break(cudaError_t error);
bool cudart_is_broken(void);
/* The dynamic shared memory that a kernel may have, in bytes. */
size_t cudart_shared_of(const void *kernel);

/* The device that calls of this thread go to. */
int cudart_device(void);
/* Runs all that any stream has to do. */
void cudart_run_streams(void);
/* What a call gives that has waited. */
cudaError_t cudart_waited(const char *who);
/* Every capture under way ends with an error. */
void cudart_spoil_captures(void);
/* Forgets what streams have to do. */
void cudart_forget_streams(void);
/* --- what there is to do ---------------------------------------------------------------------- */

typedef struct work {
    int holders;
    void (*run)(void *context);
    void (*end)(void *context);
    void *context;
} work;

/* What work may touch; n = 0: anything. */
typedef struct span_list {
    int holders, n;
    emu_span spans[];
} span_list;

/* A place in a stream: an event's. */
typedef struct mark {
    int holders;
    bool done;
    double seconds;
    cudaStream_t stream;
} mark;

typedef enum step_kind { STEP_WORK, STEP_DECLARE, STEP_RECORD, STEP_WAIT } step_kind;
typedef struct step {
    step_kind kind;
    work *work;
    span_list *spans;
    mark *mark;   /* of a stream */
    int lane, at; /* of a graph: the stream, and which of the graph's marks */
} step;

typedef struct step_list {
    step *steps;
    size_t first, n, room;
} step_list;

typedef struct graph_mark {
    int lane;
    size_t step; /* that records it */
} graph_mark;

struct CUgraph_st {
    int holders;
    step_list list;
    graph_mark *marks;
    int n_marks, n_lanes;
    /* while it is captured */
    unsigned long id;
    cudaStream_t origin;
    enum cudaStreamCaptureMode mode;
    bool spoiled;
    size_t *last, *joined; /* [n_lanes]: its last step, and the last that another lane has waited for; both + 1 */
};

struct CUgraphExec_st {
    cudaGraph_t graph;
};

struct CUstream_st {
    cudaStream_t next;
    step_list list;
    span_list *spans;
    cudaGraph_t capture;
    int lane, device;
    bool blocking;
};

struct CUevent_st {
    unsigned flags;
    int device;
    mark *mark;               /* NULL: never recorded, or captured */
    unsigned long capture_id; /* 0: not captured */
    int capture_mark;
};

extern cudaStream_t cudart_streams; /* all, the legacy stream among them */
bool cudart_is_stream(cudaStream_t stream);
cudaStream_t cudart_stream_of(cudaStream_t stream); /* NULL is the legacy stream */
bool cudart_is_legacy(cudaStream_t stream);
int cudart_device_of(cudaStream_t stream); /* the legacy stream is one of each device */
/* Adds to what a stream, or the graph that it is captured into, has to do. Takes over what the step holds. */
cudaError_t cudart_add(cudaStream_t stream, step s);
/* The legacy stream and blocking streams wait for each other: done by running what is to be waited for. */
cudaError_t cudart_order(cudaStream_t s);
void cudart_run_step(cudaStream_t s);                      /* the first of a stream that has one */
void cudart_run_stream(cudaStream_t s, const mark *until); /* NULL: to its end */
void cudart_run_graph(void *graph);
void *cudart_grown(void *p, size_t bytes); /* realloc */
void cudart_drop_mark(mark *m);
void cudart_drop_spans(span_list *l);
void cudart_drop_list(step_list *l);
void cudart_drop_graph(cudaGraph_t g);
#endif
