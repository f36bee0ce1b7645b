/* queue.c: a queue of the CPU: two numbers, which loops (common/parallel.h) and workspaces go by, and the first fault.
 */
#include "queue.h"
#include <stdatomic.h>
#include <stdlib.h>

struct tk_queue {
    int threads, slots;
    uint32_t launch;
    _Atomic uint64_t fault; /* launch << 8 | status */
    void *context;          /* of its device */
    tk_queue *outer;        /* whose faults are this one's; or NULL */
};

tk_queue *tk_queue_create(int threads, int slots) {
    tk_queue *q = malloc(2 * sizeof *q); /* and its serial one */
    if (q) {
        q[0] = (tk_queue){.threads = threads > 1 ? threads : 1, .slots = slots > 1 ? slots : 1};
        q[1] = (tk_queue){.threads = 1, .slots = 1, .outer = q};
    }
    return q;
}

void tk_queue_destroy(tk_queue *q) { free(q); }

int tk_queue_threads(const tk_queue *q) { return q->threads; }
int tk_queue_slots(const tk_queue *q) { return q->slots; }

void *tk_queue_context(const tk_queue *q) { return q->context; }
void tk_queue_set_context(tk_queue *q, void *context) { q->context = context; }

tk_queue *tk_queue_serial(void) {
    static tk_queue serial = {.threads = 1, .slots = 1, .outer = &serial}; /* never written */
    return &serial;
}

tk_queue *tk_queue_serial_of(tk_queue *q) { return q->outer ? q : q + 1; }

void tk_queue_begin(tk_queue *q, uint32_t launch) { q->launch = launch; }
uint32_t tk_queue_launch(const tk_queue *q) { return q->launch; }

void tk_fault(tk_queue *q, tk_status status) {
    uint64_t none = 0;
    q = q->outer ? q->outer : q;
    if (status != TK_OK)
        atomic_compare_exchange_strong(&q->fault, &none, (uint64_t)q->launch << 8 | (uint64_t)status);
}

tk_status tk_queue_take_fault(tk_queue *q, uint32_t *out_launch) {
    /* Read after every launch, mostly without a fault: a load is enough. */
    uint64_t fault = atomic_load(&q->fault) != 0 ? atomic_exchange(&q->fault, 0) : 0;
    *out_launch = (uint32_t)(fault >> 8);
    return (tk_status)(fault & 0xff);
}
