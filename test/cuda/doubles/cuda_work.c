/* cuda_work.c: what streams and graphs have to do, and running it; what work may touch; launches of kernels. */
#include "cudart_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct CUstream_st legacy = {.blocking = true};
cudaStream_t cudart_streams = &legacy;
static const span_list *touching; /* by the work that runs */

void *cudart_grown(void *p, size_t bytes) {
    p = realloc(p, bytes);
    if (!p)
        abort();
    return p;
}

static void drop_work(work *w) {
    if (w && --w->holders == 0) {
        if (w->end)
            w->end(w->context);
        free(w);
    }
}

void cudart_drop_spans(span_list *l) {
    if (l && --l->holders == 0)
        free(l);
}

void cudart_drop_mark(mark *m) {
    if (m && --m->holders == 0)
        free(m);
}

static void drop_step(step *s) {
    drop_work(s->work);
    cudart_drop_spans(s->spans);
    cudart_drop_mark(s->mark);
}

static void push(step_list *l, step s) {
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->steps = cudart_grown(l->steps, l->room * sizeof *l->steps);
    }
    l->steps[l->n++] = s;
}

void cudart_drop_list(step_list *l) {
    for (size_t i = l->first; i < l->n; i++)
        drop_step(&l->steps[i]);
    free(l->steps);
    *l = (step_list){0};
}

void cudart_drop_graph(cudaGraph_t g) {
    if (!g || --g->holders > 0)
        return;
    cudart_drop_list(&g->list);
    free(g->marks);
    free(g->last);
    free(g->joined);
    free(g);
}

/* --- running ---------------------------------------------------------------------------------- */

bool emu_is_eager(void) {
    const char *value = getenv("EMU_NCCL");
    return value && strcmp(value, "eager") == 0;
}

void emu_trace(const char *what, const void *p, size_t bytes) {
    static FILE *trace;
    const char *path = getenv("EMU_TRACE");
    if (path && !trace && !(trace = fopen(path, "w")))
        abort();
    if (path)
        fprintf(trace, "%s %zu %zu\n", what, (size_t)(uintptr_t)p, bytes);
}

static void trace_writes(const span_list *l) {
    for (int i = 0; l && i < l->n; i++)
        if (l->spans[i].writable)
            emu_trace("write", l->spans[i].at, l->spans[i].bytes);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool hanging;

void emu_hang(bool hangs) { hanging = hangs; }
bool emu_hangs(void) { return hanging; }

cudaError_t cudart_waited(const char *who) {
    if (hanging) {
        emu_misused(who, "it waits for ever, for what other ranks do not give");
        return cudart_give(cudaErrorUnknown);
    }
    return cudart_ready();
}

static void run_work(const work *w, const span_list *spans) {
    if (cudart_is_broken() || hanging)
        return;
    touching = spans;
    emu_allow(spans ? spans->spans : NULL, spans ? spans->n : 0);
    w->run(w->context);
    touching = NULL;
    emu_allow(NULL, 0);
    if (emu_failed())
        cudart_break(cudaErrorIllegalAddress);
}

/* Runs the first step of a stream that has one. */
void cudart_run_step(cudaStream_t s) {
    step first = s->list.steps[s->list.first++];
    if (s->list.first == s->list.n)
        s->list.first = s->list.n = 0;
    if (first.kind == STEP_WORK) {
        run_work(first.work, s->spans);
    } else if (first.kind == STEP_DECLARE) {
        cudart_drop_spans(s->spans);
        s->spans = first.spans;
        first.spans = NULL;
        trace_writes(s->spans);
    } else if (first.kind == STEP_RECORD) {
        first.mark->done = true;
        first.mark->seconds = now();
    } else if (!first.mark->done) {
        cudart_run_stream(first.mark->stream, first.mark);
    }
    drop_step(&first);
}

void cudart_run_stream(cudaStream_t s, const mark *until) {
    while (s->list.first < s->list.n && !(until && until->done))
        cudart_run_step(s);
}

void cudart_run_streams(void) {
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        cudart_run_stream(s, NULL);
}

/* One run of a graph. */
typedef struct replay {
    cudaGraph_t graph;
    size_t *next;            /* [lanes] */
    const span_list **spans; /* [lanes] */
    bool *done;              /* [marks] */
} replay;

static void run_lane(replay *r, int lane, int until, bool waits);

static void record(replay *r, int lane, int at) {
    r->done[at] = true;
    for (int other = 1; lane == 0 && emu_is_eager() && other < r->graph->n_lanes; other++)
        run_lane(r, other, -1, false);
}

/* Runs a lane to its end, until a mark was recorded, or, where nobody waits for it, until it would wait itself. */
static void run_lane(replay *r, int lane, int until, bool waits) {
    const step_list *list = &r->graph->list;
    while (r->next[lane] < list->n && !(until >= 0 && r->done[until])) {
        const step *s = &list->steps[r->next[lane]++];
        if (s->lane != lane)
            continue;
        if (s->kind == STEP_WORK)
            run_work(s->work, r->spans[lane]);
        else if (s->kind == STEP_DECLARE)
            trace_writes(r->spans[lane] = s->spans);
        else if (s->kind == STEP_RECORD)
            record(r, lane, s->at);
        else if (!r->done[s->at] && waits)
            run_lane(r, r->graph->marks[s->at].lane, s->at, true);
        else if (!r->done[s->at]) {
            r->next[lane]--;
            return;
        }
    }
}

void cudart_run_graph(void *context) {
    cudaGraph_t g = context;
    const size_t lanes = (size_t)g->n_lanes;
    replay r = {g, calloc(lanes, sizeof *r.next), calloc(lanes, sizeof *r.spans),
                calloc((size_t)g->n_marks + 1, sizeof *r.done)};
    if (!r.next || !r.spans || !r.done)
        abort();
    for (size_t i = 0; i < lanes; i++)
        r.spans[i] = touching;
    run_lane(&r, 0, -1, true);
    free(r.next);
    free((void *)r.spans);
    free(r.done);
}

/* --- adding ----------------------------------------------------------------------------------- */

bool cudart_is_stream(cudaStream_t stream) {
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        if (s == stream)
            return true;
    return false;
}

cudaStream_t cudart_stream_of(cudaStream_t stream) { return stream ? stream : &legacy; }
bool cudart_is_legacy(cudaStream_t stream) { return stream == &legacy; }

int cudart_device_of(cudaStream_t stream) {
    return stream && cudart_is_stream(stream) ? stream->device : cudart_device();
}

bool emu_is_capturing(void) {
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        if (s->capture)
            return true;
    return false;
}

bool emu_is_captured(cudaStream_t stream) {
    return cudart_is_stream(cudart_stream_of(stream)) && cudart_stream_of(stream)->capture;
}

void cudart_spoil_captures(void) {
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        if (s->capture)
            s->capture->spoiled = true;
}

bool emu_refuses_to_wait(void) {
    bool refuses = false;
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        if (s->capture && s->capture->mode != cudaStreamCaptureModeRelaxed)
            refuses = s->capture->spoiled = true;
    return refuses;
}

/* The legacy stream and blocking streams wait for each other: done here by running what is to be waited for. */
cudaError_t cudart_order(cudaStream_t s) {
    if (s != &legacy) {
        if (s->blocking)
            cudart_run_stream(&legacy, NULL);
        return cudaSuccess;
    }
    for (cudaStream_t other = cudart_streams; other; other = other->next)
        if (other->blocking && other->capture) {
            other->capture->spoiled = true;
            return cudaErrorStreamCaptureImplicit;
        }
    for (cudaStream_t other = cudart_streams; other; other = other->next)
        if (other->blocking)
            cudart_run_stream(other, NULL);
    return cudaSuccess;
}

/* Adds to what a stream, or its graph, has to do. Takes over what the step holds. */
cudaError_t cudart_add(cudaStream_t stream, step s) {
    cudaError_t error = cudart_ready();
    stream = cudart_stream_of(stream);
    if (error == cudaSuccess && !cudart_is_stream(stream))
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && stream->capture && stream->capture->spoiled)
        error = cudaErrorStreamCaptureInvalidated;
    if (error == cudaSuccess && !stream->capture)
        error = cudart_order(stream);
    if (error != cudaSuccess) {
        drop_step(&s);
        return cudart_give(error);
    }
    if (stream->capture) {
        s.lane = stream->lane;
        push(&stream->capture->list, s);
        stream->capture->last[s.lane] = stream->capture->list.n;
    } else {
        push(&stream->list, s);
    }
    return cudaSuccess;
}

cudaError_t emu_on_stream(cudaStream_t stream, void (*run)(void *context), void (*end)(void *context), void *context) {
    work *w = cudart_grown(NULL, sizeof *w);
    *w = (work){1, run, end, context};
    return cudart_add(stream, (step){.kind = STEP_WORK, .work = w});
}

void emu_declare(cudaStream_t stream, const emu_span *spans, int n) {
    span_list *list = cudart_grown(NULL, sizeof *list + (size_t)n * sizeof list->spans[0]);
    list->holders = 1;
    list->n = n;
    if (n > 0)
        memcpy(list->spans, spans, (size_t)n * sizeof list->spans[0]);
    cudart_add(stream, (step){.kind = STEP_DECLARE, .spans = list});
}

/* How many of the bytes from p on the spans allow, or, of what is not allowed, SIZE_MAX. */
static size_t allowed_from(const char *p, bool write) {
    for (int i = 0; i < touching->n; i++) {
        const emu_span *s = &touching->spans[i];
        const char *at = s->at;
        if (p >= at && p < at + s->bytes && (s->writable || !write))
            return (size_t)(at + s->bytes - p);
    }
    return 0;
}

bool emu_may_touch(const void *p, size_t bytes, bool write, const char *who, const char *what) {
    if (bytes > 0 && !emu_is_device(p, bytes)) {
        emu_misused(who, "%s: %zu bytes at %p are not within the device's memory", what, bytes, p);
        return false;
    }
    for (size_t seen = 0; touching && touching->n > 0 && seen < bytes;) {
        size_t more = allowed_from((const char *)p + seen, write);
        if (more == 0) {
            emu_misused(who, "%s: byte %zu of %zu was not declared to be %s", what, seen, bytes,
                        write ? "written" : "read");
            return false;
        }
        seen += more;
    }
    return true;
}

bool emu_may_read(const void *p, size_t bytes, const char *who, const char *what) {
    if (!emu_may_touch(p, bytes, false, who, what))
        return false;
    const char *wrong = bytes > 0 ? emu_unread(p, bytes) : NULL;
    if (wrong)
        emu_misused(who, "%s: %s", what, wrong);
    return !wrong;
}

/* --- launches --------------------------------------------------------------------------------- */

typedef struct launch {
    const char *name;
    emu_dim3 grid, block;
    size_t shared;
    void (*call)(const void *);
    void (*end)(const void *);
    const void *arguments;
} launch;

static void run_launch(void *context) {
    const launch *l = context;
    if (l->shared > 48 << 10) /* which was checked; launches of one template share a name */
        emu_allow_shared(l->name, l->shared);
    emu_run(l->name, l->grid, l->block, l->shared, l->call, l->arguments);
}

static void end_launch(void *context) {
    launch *l = context;
    l->end(l->arguments);
    free(l);
}

static cudaError_t check_launch(emu_dim3 grid, emu_dim3 block, size_t shared, const void *kernel) {
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (grid.x < 1 || grid.x > 0x7fffffff || grid.y < 1 || grid.y > 65535 || grid.z < 1 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (threads < 1 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64)
        return cudaErrorInvalidConfiguration;
    return shared <= cudart_shared_of(kernel) ? cudaSuccess : cudaErrorInvalidValue;
}

void emu_queue(const char *name, emu_dim3 grid, emu_dim3 block, size_t shared, void *stream, const void *kernel,
               void (*call)(const void *), void (*end)(const void *), const void *f) {
    cudaError_t error = cudart_ready();
    if (error == cudaSuccess && cudart_device_of(stream) != cudart_device())
        error = cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess)
        error = check_launch(grid, block, shared, kernel);
    if (error != cudaSuccess) {
        cudart_give(error);
        if (!emu_quiet)
            fprintf(stderr, "emulated device: launch of %s: %s\n", name, cudaGetErrorString(error));
        end(f);
        return;
    }
    launch *l = cudart_grown(NULL, sizeof *l);
    *l = (launch){name, grid, block, shared, call, end, f};
    emu_on_stream(stream, run_launch, end_launch, l);
}

void cudart_forget_streams(void) {
    hanging = false;
    for (cudaStream_t s = cudart_streams; s; s = s->next) {
        if (s->capture)
            cudart_drop_graph(s->capture);
        s->capture = NULL;
        for (size_t i = s->list.first; i < s->list.n; i++)
            if (s->list.steps[i].kind == STEP_RECORD)
                s->list.steps[i].mark->done = true;
        cudart_drop_list(&s->list);
        cudart_drop_spans(s->spans);
        s->spans = NULL;
    }
}
