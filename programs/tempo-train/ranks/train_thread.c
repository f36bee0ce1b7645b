/* train_thread.c: starting a thread, and asking for the time. */
#include "train_thread.h"
#include <signal.h>
#include <time.h>

bool train_thread_start(pthread_t *out_thread, void *(*run)(void *user), void *user) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_there = pthread_create(out_thread, NULL, run, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_there;
}

double train_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
