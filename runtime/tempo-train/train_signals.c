/* train_signals.c: signals -> what the loop asks for behind each update. */
#include "train.h"

static volatile sig_atomic_t stop, save;

static void on_stop(int number) {
    if (stop) {
        tc_remove_temporary_files();
        signal(number, SIG_DFL);
        raise(number);
    }
    stop = number;
}

static void on_save(int number) {
    (void)number;
    save = 1;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup's stays ignored */
        sigaction(number, &action, NULL);
}

void train_signals_catch(void) {
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
    handle(SIGUSR1, on_save);
}

int train_signals_stop(void) { return stop; }

bool train_signals_save(void) {
    bool asked = save;
    save = 0;
    return asked;
}
