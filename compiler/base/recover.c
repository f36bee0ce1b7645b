/* recover.c: a failure -> a message, releases, a jump to the innermost recovery point. Nothing here takes memory. */
#include "recover.h"
#include <string.h>

static _Thread_local tc_recovery *innermost;
static _Thread_local tc_failure failure;

/* --- what is held ----------------------------------------------------------------------------- */

/* Lists are rings through their head: its `older` is the newest link. */
static void make_ring(tc_held *list) {
    if (!list->older)
        list->older = list->newer = list;
}

static void link_newest(tc_held *list, tc_held *held) {
    held->older = list->older;
    held->newer = list;
    list->older->newer = held;
    list->older = held;
}

void tc_hold(tc_held *held, void (*release)(void *what), void *what) {
    *held = (tc_held){.release = release, .what = what};
    if (innermost)
        link_newest(&innermost->held, held);
}

void tc_let_go(tc_held *held) {
    if (!held->older)
        return;
    held->older->newer = held->newer;
    held->newer->older = held->older;
    held->older = held->newer = NULL;
}

void tc_release_all(tc_held *list) {
    make_ring(list);
    for (tc_held *held = list->older; held != list; held = list->older) {
        tc_let_go(held);
        held->release(held->what);
    }
}

/* --- points ----------------------------------------------------------------------------------- */

jmp_buf *tc_recovery_open(tc_recovery *point) {
    point->outer = innermost;
    point->held = (tc_held){0};
    make_ring(&point->held);
    innermost = point;
    return &point->at;
}

void tc_recovery_close(tc_recovery *point, tc_held *owner) {
    innermost = point->outer;
    tc_held *list = owner ? owner : innermost ? &innermost->held : NULL, *held = &point->held;
    if (!list) {
        while (held->older != held)
            tc_let_go(held->older);
    } else if (held->older != held) {
        make_ring(list);
        held->newer->older = list->older;
        list->older->newer = held->newer;
        held->older->newer = list;
        list->older = held->older;
    }
}

const tc_failure *tc_recovery_failure(void) { return &failure; }

/* A release may fail, too; its failure ends at the recovery point around this one. */
_Noreturn void tc_recovery_pass_on(void) {
    tc_recovery *point = innermost;
    if (!point)
        __builtin_trap();
    innermost = point->outer;
    tc_release_all(&point->held);
    longjmp(point->at, 1);
}

_Noreturn void tc_out_of_memory(size_t wanted) {
    failure.status = TC_LIMIT;
    snprintf(failure.text, sizeof failure.text, "error: out of memory: %zu bytes wanted", wanted);
    tc_recovery_pass_on();
}

_Noreturn void tc_bug(const char *file, int line, const char *what) {
    failure.status = TC_BUG;
    snprintf(failure.text, sizeof failure.text, "bug: %s:%d: assertion failed: %s", file, line, what);
    tc_recovery_pass_on();
}

tc_status tc_attempt(tc_status (*body)(void *user), void *user, const tc_failure **out_failure) {
    tc_recovery point;
    if (TC_RECOVERS(&point)) {
        tc_status status = body(user);
        tc_recovery_close(&point, NULL);
        *out_failure = NULL;
        return status;
    }
    *out_failure = &failure;
    return failure.status;
}

tc_status tc_attempt_told(tc_ctx *ctx, tc_status (*body)(void *user), void *user) {
    static const char word[] = "error: ";
    const tc_failure *ended_by;
    tc_status status = tc_attempt(body, user, &ended_by);
    if (!ended_by)
        return status;
    const char *text = ended_by->text;
    return tc_error(ctx, status, NULL, "%s", strncmp(text, word, strlen(word)) == 0 ? text + strlen(word) : text);
}
