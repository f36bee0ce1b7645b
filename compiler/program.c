/* program.c: a function of a context and arguments -> a process with an exit code. */
#include "program.h"
#include "onnx_io.h"
#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void tc_program_one_heap(void) {
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1);
#endif
}

/* --- handlers --------------------------------------------------------------------------------- */

static void on_signal(int number) {
    tc_remove_temporary_files();
    signal(number, SIG_DFL);
    raise(number);
}

static void on_truncation(int number) {
    static const char message[] = "error: a mapped file became shorter while it was in use\n";
    (void)number;
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        (void)number; /* nobody left to tell */
    tc_remove_temporary_files();
    _exit(TC_IO);
}

#define ONE_INTERRUPT 200 /* milliseconds */

static volatile sig_atomic_t interrupted;

bool tc_program_insists(bool first) {
    static struct timespec begun;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (first)
        begun = now;
    return (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 > ONE_INTERRUPT;
}

static void on_interrupt(int number) {
    if (tc_program_insists(!interrupted))
        on_signal(number);
    interrupted = 1;
}

void tc_program_catch_interrupt(bool on) {
    struct sigaction old;
    if (on)
        interrupted = 0;
    if (sigaction(SIGINT, NULL, &old) == 0 && (old.sa_handler == on_signal || old.sa_handler == on_interrupt))
        signal(SIGINT, on ? on_interrupt : on_signal);
}

const volatile sig_atomic_t *tc_program_interrupted(void) { return &interrupted; }

/* Only where the process has no handler of its own. */
static void handle(int number, void (*handler)(int)) {
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        signal(number, handler);
}

void tc_program_handlers(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    atexit(tc_remove_temporary_files);
    for (size_t i = 0; i < TC_COUNT(signals); i++)
        handle(signals[i], on_signal);
    handle(SIGBUS, on_truncation);
    handle(SIGXFSZ, SIG_IGN); /* the write fails, and says so */
}

/* What is opened next would get the number of one that is closed, and what is printed with it. The root folder can
 * neither be read from nor written to, so that whoever needs one of them is told. */
static void fill_standard_files(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/", O_RDONLY) != fd)
            _exit(TC_IO);
}

/* --- main ------------------------------------------------------------------------------------- */

typedef struct job {
    const char *tool;
    tc_status (*run)(tc_ctx *ctx, int argc, char **argv);
    int argc;
    char **argv;
} job;

static tc_status work(void *user) {
    const job *j = user;
    tc_ctx ctx;
    tc_ctx_init(&ctx, j->tool);
    tc_status status = j->run(&ctx, j->argc, j->argv);
    tc_diags_print(&ctx, stderr);
    tc_ctx_fini(&ctx);
    return status;
}

int tc_program(const char *tool, tc_status (*run)(tc_ctx *ctx, int argc, char **argv), int argc, char **argv) {
    const tc_failure *failure;
    job j = {tool, run, argc, argv};
    fill_standard_files();
    tc_program_handlers();
    tc_status status = tc_attempt(work, &j, &failure);
    if (failure)
        fprintf(stderr, "%s: %s\n", tool, failure->text);
    if (status == TC_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "%s: error: cannot write to standard output: %s\n", tool, strerror(errno));
        status = TC_IO;
    }
    return (int)status;
}
