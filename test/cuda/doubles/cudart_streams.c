/* cudart_streams.c: streams, events, captures and graphs of the double, as CUDA's interface has them. */
#include "cudart_state.h"
#include <stdlib.h>

static unsigned long n_captures;

/* --- streams ---------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (!pStream || flags > cudaStreamNonBlocking)
        return cudart_give(cudaErrorInvalidValue);
    cudaStream_t s = cudart_grown(NULL, sizeof *s);
    *s = (struct CUstream_st){
        .next = cudart_streams, .device = cudart_device(), .blocking = !(flags & cudaStreamNonBlocking)};
    cudart_streams = s;
    *pStream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream) { return cudaStreamCreateWithFlags(pStream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream || !cudart_is_stream(stream))
        return cudart_give(cudaErrorInvalidResourceHandle);
    if (stream->capture) {
        stream->capture->spoiled = true;
        cudart_drop_graph(stream->capture);
    }
    cudart_run_stream(stream, NULL);
    cudaStream_t *at = &cudart_streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    cudart_drop_list(&stream->list);
    cudart_drop_spans(stream->spans);
    free(stream);
    return cudaSuccess;
}

/* Whether the host may wait for the stream. */
static cudaError_t check_wait(cudaStream_t stream) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (!cudart_is_stream(stream))
        return cudart_give(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        stream->capture->spoiled = true;
    return emu_refuses_to_wait() || stream->capture ? cudart_give(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    stream = cudart_stream_of(stream);
    cudaError_t error = check_wait(stream);
    if (error == cudaSuccess && cudart_is_legacy(stream))
        error = cudart_give(cudart_order(stream));
    if (error != cudaSuccess)
        return error;
    cudart_run_stream(stream, NULL);
    return cudart_waited("cudaStreamSynchronize");
}

cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (emu_is_capturing()) {
        cudart_spoil_captures();
        return cudart_give(cudaErrorStreamCaptureUnsupported);
    }
    cudart_run_streams();
    return cudart_waited("cudaDeviceSynchronize");
}

/* Asking is a step forward, or who asks in a loop would ask for ever. */
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    stream = cudart_stream_of(stream);
    cudaError_t error = check_wait(stream);
    if (error != cudaSuccess || (stream->list.n == 0 && !emu_hangs()))
        return error;
    if (!emu_hangs())
        cudart_run_step(stream);
    return cudart_ready() != cudaSuccess ? cudart_ready() : cudaErrorNotReady;
}

/* --- events ----------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (!event || flags > (cudaEventBlockingSync | cudaEventDisableTiming))
        return cudart_give(cudaErrorInvalidValue);
    *event = cudart_grown(NULL, sizeof **event);
    **event = (struct CUevent_st){.flags = flags, .device = cudart_device()};
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!event)
        return cudart_give(cudaErrorInvalidResourceHandle);
    cudart_drop_mark(event->mark);
    free(event);
    return cudaSuccess;
}

static void record_captured(cudaEvent_t event, cudaStream_t stream) {
    cudaGraph_t g = stream->capture;
    g->marks = cudart_grown(g->marks, (size_t)(g->n_marks + 1) * sizeof *g->marks);
    g->marks[g->n_marks] = (graph_mark){stream->lane, g->list.n};
    cudart_drop_mark(event->mark);
    event->mark = NULL;
    event->capture_id = g->id;
    event->capture_mark = g->n_marks++;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (!event || event->device != cudart_device_of(stream))
        return cudart_give(cudaErrorInvalidResourceHandle);
    if (emu_is_captured(stream)) {
        if (!cudart_stream_of(stream)->capture->spoiled)
            record_captured(event, cudart_stream_of(stream));
        return cudart_add(stream, (step){.kind = STEP_RECORD, .at = event->capture_mark});
    }
    mark *m = cudart_grown(NULL, sizeof *m);
    *m = (mark){.holders = 2, .stream = cudart_stream_of(stream)};
    cudart_drop_mark(event->mark);
    event->mark = m;
    event->capture_id = 0;
    cudaError_t error = cudart_add(stream, (step){.kind = STEP_RECORD, .mark = m});
    if (error != cudaSuccess)
        m->done = true;
    return error;
}

/* The stream goes on, captured, behind an event of a capture. */
static cudaError_t wait_captured(cudaStream_t stream, cudaEvent_t event) {
    cudaGraph_t g = NULL;
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        if (s->capture && s->capture->id == event->capture_id)
            g = s->capture;
    if (!g)
        return cudart_give(cudaErrorCapturedEvent);
    if (stream->capture && stream->capture != g) {
        cudart_spoil_captures();
        return cudart_give(cudaErrorStreamCaptureMerge);
    }
    if (!stream->capture) {
        stream->capture = g;
        stream->lane = g->n_lanes++;
        g->holders++;
        g->last = cudart_grown(g->last, (size_t)g->n_lanes * sizeof *g->last);
        g->joined = cudart_grown(g->joined, (size_t)g->n_lanes * sizeof *g->joined);
        g->last[stream->lane] = g->joined[stream->lane] = 0;
    }
    const graph_mark *m = &g->marks[event->capture_mark];
    if (m->lane != stream->lane && g->joined[m->lane] < m->step + 1)
        g->joined[m->lane] = m->step + 1;
    return cudart_add(stream, (step){.kind = STEP_WAIT, .at = event->capture_mark});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    stream = cudart_stream_of(stream);
    if (!event || !cudart_is_stream(stream) || flags != 0)
        return cudart_give(cudaErrorInvalidValue);
    if (event->capture_id != 0)
        return wait_captured(stream, event);
    if (!event->mark)
        return cudart_ready();
    if (stream->capture) {
        stream->capture->spoiled = true;
        return cudart_give(cudaErrorStreamCaptureIsolation);
    }
    event->mark->holders++;
    return cudart_add(stream, (step){.kind = STEP_WAIT, .mark = event->mark});
}

/* Whether the host may ask about an event. */
static cudaError_t check_event(cudaEvent_t event) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (!event)
        return cudart_give(cudaErrorInvalidResourceHandle);
    if (event->capture_id != 0)
        return cudart_give(cudaErrorCapturedEvent);
    return emu_refuses_to_wait() ? cudart_give(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error = check_event(event);
    if (error != cudaSuccess || !event->mark)
        return error;
    if (!event->mark->done)
        cudart_run_stream(event->mark->stream, event->mark);
    return cudart_waited("cudaEventSynchronize");
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = check_event(event);
    if (error != cudaSuccess || !event->mark || event->mark->done)
        return error;
    cudart_run_step(event->mark->stream);
    return cudart_ready() != cudaSuccess ? cudart_ready() : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    if (!start || !end || ((start->flags | end->flags) & cudaEventDisableTiming) || !start->mark || !end->mark)
        return cudart_give(cudaErrorInvalidResourceHandle);
    if (!start->mark->done || !end->mark->done)
        return cudart_give(cudaErrorNotReady);
    *ms = (float)(1e3 * (end->mark->seconds - start->mark->seconds));
    return cudaSuccess;
}

/* --- captures and graphs ---------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    cudaError_t error = cudart_ready();
    if (error != cudaSuccess)
        return error;
    if (!stream) /* the legacy stream cannot be captured */
        return cudart_give(cudaErrorStreamCaptureUnsupported);
    if (!cudart_is_stream(stream) || stream->capture)
        return cudart_give(cudaErrorInvalidValue);
    cudaGraph_t g = cudart_grown(NULL, sizeof *g);
    *g = (struct CUgraph_st){.holders = 1, .n_lanes = 1, .id = ++n_captures, .origin = stream, .mode = mode};
    g->last = cudart_grown(NULL, sizeof *g->last);
    g->joined = cudart_grown(NULL, sizeof *g->joined);
    g->last[0] = g->joined[0] = 0;
    stream->capture = g;
    stream->lane = 0;
    return cudaSuccess;
}

static cudaError_t check_capture(cudaGraph_t g) {
    if (g->spoiled)
        return cudaErrorStreamCaptureInvalidated;
    for (int i = 1; i < g->n_lanes; i++)
        if (g->joined[i] < g->last[i])
            return cudaErrorStreamCaptureUnjoined;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph) {
    *pGraph = NULL;
    if (!stream || !cudart_is_stream(stream) || !stream->capture)
        return cudart_give(cudaErrorInvalidValue);
    cudaGraph_t g = stream->capture;
    if (g->origin != stream) {
        g->spoiled = true;
        return cudart_give(cudaErrorStreamCaptureUnmatched);
    }
    const cudaError_t error = check_capture(g);
    g->holders++;
    for (cudaStream_t s = cudart_streams; s; s = s->next)
        if (s->capture == g) {
            s->capture = NULL;
            cudart_drop_graph(g);
        }
    if (error == cudaSuccess)
        *pGraph = g;
    else
        cudart_drop_graph(g);
    return cudart_give(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus) {
    stream = cudart_stream_of(stream);
    if (!cudart_is_stream(stream))
        return cudart_give(cudaErrorInvalidResourceHandle);
    const cudaGraph_t g = stream->capture;
    *pCaptureStatus = !g           ? cudaStreamCaptureStatusNone
                      : g->spoiled ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags) {
    if (!graph || flags != 0)
        return cudart_give(cudaErrorInvalidValue);
    if (emu_refuses_to_wait()) /* it allocates */
        return cudart_give(cudaErrorStreamCaptureUnsupported);
    *pGraphExec = cudart_grown(NULL, sizeof **pGraphExec);
    (*pGraphExec)->graph = graph;
    graph->holders++;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes) {
    if (!graph || nodes)
        return cudart_give(cudaErrorInvalidValue);
    *numNodes = 0;
    for (size_t i = 0; i < graph->list.n; i++)
        *numNodes += graph->list.steps[i].kind == STEP_WORK;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
    return cudart_give(!graphExec || !cudart_is_stream(cudart_stream_of(stream)) ? cudaErrorInvalidValue : cudaSuccess);
}

static void end_graph(void *context) { cudart_drop_graph(context); }

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
    if (!graphExec)
        return cudart_give(cudaErrorInvalidValue);
    graphExec->graph->holders++;
    return emu_on_stream(stream, cudart_run_graph, end_graph, graphExec->graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
    if (!graphExec)
        return cudart_give(cudaErrorInvalidValue);
    cudart_drop_graph(graphExec->graph);
    free(graphExec);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    if (!graph)
        return cudart_give(cudaErrorInvalidValue);
    cudart_drop_graph(graph);
    return cudaSuccess;
}
