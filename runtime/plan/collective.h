/* collective.h: how ranks reach each other without the device: a table of functions that the program hands in
 * (rt_hooks), so that libtempo needs no library for it. All pieces are the host's memory. One thread calls them, in the
 * same order on each rank. */
#ifndef RT_COLLECTIVE_H
#define RT_COLLECTIVE_H
#include "runtime/device/device.h"

typedef struct rt_collective {
    void *user;
    int rank, ranks;
    /* Begins the mean over all ranks of each piece, in place: beside the caller's work until it waits, after the
     * buckets before this one. Buckets of a run count from 0; `pieces` stay until the run ends. */
    void (*average)(void *user, uint32_t bucket, const rt_piece *pieces, uint32_t n);
    /* Waits for the bucket and for those before it. False: it does not come, and `failure` says why. */
    bool (*averaged)(void *user, uint32_t bucket);
    const char *(*failure)(void *user);
    /* Sets to[i] to the number of rank i. False: it does not come. */
    bool (*exchange)(void *user, double number, double *to);
    /* A run is about to compute this node, or is over: NULL. A watcher of ranks sees by it which node is stuck. `node`
     * stays until the next call. */
    void (*alive)(void *user, const char *node);
} rt_collective;
#endif
