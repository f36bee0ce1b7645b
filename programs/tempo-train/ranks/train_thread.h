/* train_thread.h: threads beside the computing one, and their clock. */
#ifndef TRAIN_THREAD_H
#define TRAIN_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that gets no signals: the computing thread's handlers take them. False: there is none. */
bool train_thread_start(pthread_t *out_thread, void *(*run)(void *user), void *user);
/* Seconds, by a clock that only goes forward. */
double train_now(void);
#endif
