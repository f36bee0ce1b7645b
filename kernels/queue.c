/* queue.c: a queue of the CPU: two numbers, which loops (common/parallel.h) and workspaces go by. */
#include "queue.h"
#include <stdlib.h>

struct tk_queue {
    int threads, slots;
};

tk_queue *tk_queue_create(int threads, int slots) {
    tk_queue *q = malloc(sizeof *q);
    if (q)
        *q = (tk_queue){threads > 1 ? threads : 1, slots > 1 ? slots : 1};
    return q;
}

void tk_queue_destroy(tk_queue *q) { free(q); }

int tk_queue_threads(const tk_queue *q) { return q->threads; }
int tk_queue_slots(const tk_queue *q) { return q->slots; }

tk_queue *tk_queue_serial(void) {
    static tk_queue serial = {1, 1}; /* never written */
    return &serial;
}
