/* train_signals.c: signals -> requests to the loop after each update. */
#include "compiler/cli/cli.h"
#include "train.h"

/* A terminal or a batch system that ends sends several of them, some again and again; a pipe without a reader one for
 * each line. Only signals listed after INSISTENT end the process at once when they come again. */
static const int stops[TRAIN_STOPS] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGXCPU, SIGPIPE};
enum { INSISTENT = 3 };

static volatile sig_atomic_t stop, insisted, save;

static void on_stop(int number) {
    int i = 0;
    while (stops[i] != number)
        i++;
    if (i < INSISTENT && tc_program_insists(!insisted)) {
        tc_remove_temporary_files();
        signal(number, SIG_DFL);
        raise(number);
    }
    insisted = insisted || i < INSISTENT;
    stop = stop ? stop : number;
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

void train_signals_begin(void) {
    handle(SIGUSR1, on_save);
    handle(SIGUSR2, on_save);
}

void train_signals_catch(void) {
    for (int i = 0; i < TRAIN_STOPS; i++)
        handle(stops[i], on_stop);
}

void train_signals_tell(double flags[TRAIN_SIGNALS]) {
    for (int i = 0; i < TRAIN_STOPS; i++)
        flags[i] = stop == stops[i];
    flags[TRAIN_STOPS] = save;
    save = 0;
}

int train_signals_heard(const double flags[TRAIN_SIGNALS], bool *out_save) {
    *out_save = flags[TRAIN_STOPS] > 0;
    for (int i = 0; i < TRAIN_STOPS; i++)
        if (flags[i] > 0)
            return stops[i];
    return 0;
}
