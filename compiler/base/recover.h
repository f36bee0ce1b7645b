/* recover.h: how a call ends that cannot go on, because memory is out or an assertion failed: as a status with a
 * message, at the recovery point that the caller opened. No result is tested for NULL on the way, and nothing leaks:
 * the point *holds* all that was taken since it opened, and releases it newest first. Callers from outside the
 * libraries open a point: each call of tempo.h, the main of each program, the pipeline around each pass. A failure
 * without an open point ends the process by a trap. Points are per thread; no failure may cross an OpenMP region
 * (kernels take no memory). */
#ifndef TC_RECOVER_H
#define TC_RECOVER_H
#include "diag.h"
#include <setjmp.h>

/* --- what is held ----------------------------------------------------------------------------- */

/* A link in the list of a point, or in one of its owner. It lies inside the object that it stands for (an arena, a
 * model, an open file), or on the stack of a function that needs a resource for a while: releases run before the stack
 * unwinds. */
typedef struct tc_held {
    void (*release)(void *what);
    void *what;
    struct tc_held *older, *newer; /* NULL: not held */
} tc_held;

/* The innermost point of this thread will call release(what) on a failure; without a point nothing happens. */
void tc_hold(tc_held *held, void (*release)(void *what), void *what);
/* The object is released by other means, or has another owner. Allowed for an object that is not held. */
void tc_let_go(tc_held *held);

/* An owner's list: a tc_held without an object, all zero while the list is empty. Releases newest first. */
void tc_release_all(tc_held *list);

/* --- points ----------------------------------------------------------------------------------- */

typedef struct tc_failure {
    tc_status status; /* TC_LIMIT: out of memory; TC_BUG: an assertion */
    char text[240];   /* "error: out of memory: 64 bytes wanted", "bug: FILE:LINE: assertion failed: n > 0" */
} tc_failure;

typedef struct tc_recovery {
    jmp_buf at;
    struct tc_recovery *outer;
    tc_held held; /* a list */
} tc_recovery;

/* True when the point opens, false when a failure ends there: it is closed then, and all it held is released. Use it
 * only as the whole condition of an `if`, in a function that changes no local variable after it. A point that opened
 * must be closed by tc_recovery_close before its function returns. */
#define TC_RECOVERS(point) (setjmp(*tc_recovery_open(point)) == 0)
jmp_buf *tc_recovery_open(tc_recovery *point);
/* Objects that the point still holds go to `owner`, a list; where that is NULL, to the point around it. */
void tc_recovery_close(tc_recovery *point, tc_held *owner);
/* The newest failure of this thread. */
const tc_failure *tc_recovery_failure(void);
/* Raises the same failure again, at the next point. */
_Noreturn void tc_recovery_pass_on(void);

/* Runs `body` in a point of its own and returns its status, *out_failure being NULL; or the status of the failure that
 * ended it. */
tc_status tc_attempt(tc_status (*body)(void *user), void *user, const tc_failure **out_failure);
/* The same, where the failure becomes a diagnostic. */
tc_status tc_attempt_told(tc_ctx *ctx, tc_status (*body)(void *user), void *user);
#endif
