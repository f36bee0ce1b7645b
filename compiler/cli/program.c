/* program.c: runs a function of a context and arguments as a process with an exit code. */
#include "program.h"
#include "compiler/base/base.h"
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
        (void)number; /* no way left to report it */
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

bool tc_program_handlers(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < TC_COUNT(signals); i++)
        handle(signals[i], on_signal);
    handle(SIGBUS, on_truncation);
    handle(SIGXFSZ, SIG_IGN); /* the write fails, and says so */
    return atexit(tc_remove_temporary_files) == 0;
}

/* --- libraries that do not return -------------------------------------------------------------- */

_Noreturn static void end_out_of_memory(const char *message, size_t bytes) {
    if (write(STDERR_FILENO, message, bytes) < 0)
        _exit(TC_LIMIT); /* no way left to report it */
    tc_remove_temporary_files();
    _exit(TC_LIMIT);
}

static bool has_returned; /* tc_program: it is main that exits */

/* OpenMP exits with 1 where it cannot go on, after a message of its own. */
static void on_exit_of_library(void) {
    static const char message[] = "error: a library has ended the process for lack of memory or threads; hint: ulimit "
                                  "-a shows the limits, and --threads=1 takes less\n";
    if (!has_returned)
        end_out_of_memory(message, sizeof message - 1);
}

/* Where `new` fails in a library that C called, C++ ends the process by a signal. Before that it calls this:
 * std::set_new_handler, where a library of C++ is loaded. */
typedef void (*new_handler)(void);
new_handler _ZSt15set_new_handlerPFvvE(new_handler handler) __attribute__((weak));

static void on_failed_new(void) {
    static const char message[] = "error: out of memory in a library\n";
    end_out_of_memory(message, sizeof message - 1);
}

static bool watch_libraries(void) {
    if (_ZSt15set_new_handlerPFvvE)
        _ZSt15set_new_handlerPFvvE(on_failed_new);
    return atexit(on_exit_of_library) == 0;
}

/* Otherwise the next opened file would get the number of a closed standard file, and receive all that is printed there.
 * The root folder can neither be read from nor written to: using it gives an error. */
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

/* --name=~/x, which shells leave as it is. */
static void replace_home(tc_ctx *ctx, int argc, char **argv) {
    const char *home = getenv("HOME");
    for (int i = 1; home && i < argc; i++) {
        const char *equals = strncmp(argv[i], "--", 2) == 0 ? strchr(argv[i], '=') : NULL;
        if (equals && strncmp(equals, "=~/", 3) == 0)
            argv[i] = tc_arena_printf(ctx->arena, "%.*s=%s%s", (int)(equals - argv[i]), argv[i], home, equals + 2);
    }
}

static tc_status work(void *user) {
    const job *j = user;
    tc_ctx ctx;
    tc_ctx_init(&ctx, j->tool);
    replace_home(&ctx, j->argc, j->argv);
    tc_status status = j->run(&ctx, j->argc, j->argv);
    tc_diags_print(&ctx, stderr);
    tc_ctx_fini(&ctx);
    return status;
}

int tc_program(const char *tool, tc_status (*run)(tc_ctx *ctx, int argc, char **argv), int argc, char **argv) {
    const tc_failure *failure = NULL;
    job j = {tool, run, argc, argv};
    fill_standard_files();
    tc_status status = tc_program_handlers() && watch_libraries() ? tc_attempt(work, &j, &failure)
                                                                  : TC_LIMIT; /* no room for 32 words */
    if (failure)
        fprintf(stderr, "%s: %s\n", tool, failure->text);
    if (status == TC_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "%s: error: cannot write to standard output: %s\n", tool, strerror(errno));
        status = TC_IO;
    }
    has_returned = true;
    return (int)status;
}
