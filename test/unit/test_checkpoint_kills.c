/* test_checkpoint_kills.c: a process that does nothing but save checkpoints is killed at a hundred random moments. The
 * last one that it had told of is there each time, or a newer one, each that is there verifies, and nothing of what was
 * not finished is left behind the next start. The argument is the number of kills. */
#include "checkpoint_case.h"
#include "random_below.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static int kills = 100;
static char dir[] = "/tmp/test_checkpoint_kills_XXXXXX";
static volatile int64_t *told; /* the newest step whose save returned, shared with the process */

static _Noreturn void save_until_killed(int64_t step) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    for (;; step++) {
        if (case_save(&ctx, dir, step, 2) != TC_OK)
            _exit(1);
        *told = step;
    }
}

static void run_and_kill(int64_t step, uint32_t microseconds) {
    int status;
    const struct timespec wait = {0, (long)microseconds * 1000};
    pid_t pid = fork();
    if (pid == 0)
        save_until_killed(step);
    nanosleep(&wait, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Every checkpoint of the folder, newest first: each is loaded when the newer ones are out of the way. */
static void check_each(tc_ctx *ctx, int64_t newest) {
    char name[32];
    int n = 0;
    for (int64_t step = newest; step >= 0 && step > newest - 10; step--) {
        train_checkpoint c;
        snprintf(name, sizeof name, "step-%lld", (long long)step);
        if (!case_exists(dir, name))
            continue;
        assert_int_equal(train_checkpoint_load(ctx, dir, &c), TC_OK);
        case_check(&c, step);
        train_checkpoint_close(&c);
        case_remove_tree(case_path(dir, name));
        n++;
    }
    assert_true(n <= 2);
    assert_int_equal(ctx->n_diags, 0);
}

/* What the next start finds: at least what was told of, whole, and nothing else. -1: no checkpoint. */
static int64_t start_again(tc_ctx *ctx) {
    int64_t newest, found;
    train_checkpoint c;
    assert_int_equal(case_begin(ctx, dir, &newest), TC_OK);
    assert_true(newest >= *told);
    assert_int_equal(case_remains(dir), 0);
    assert_int_equal(train_checkpoint_load(ctx, dir, &c), TC_OK);
    if (newest >= 0)
        case_check(&c, newest);
    train_checkpoint_close(&c);
    train_checkpoint_prune(ctx, dir, 2, newest);
    assert_int_equal(case_begin(ctx, dir, &found), TC_OK);
    assert_int_equal(found, newest);
    return newest;
}

/* Microseconds that a save takes, so that a process is killed in its first one as well as in later ones. */
static uint32_t time_save(tc_ctx *ctx) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int64_t step = 0; step < 4; step++)
        assert_int_equal(case_save(ctx, dir, step, 2), TC_OK);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (uint32_t)((to.tv_sec - from.tv_sec) * 250000 + (to.tv_nsec - from.tv_nsec) / 4000);
}

static void killed_at_any_moment(void **state) {
    (void)state;
    uint32_t random = 1;
    int remains = 0;
    int64_t newest = 3;
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    uint32_t longest = 4 * time_save(&ctx);
    for (int i = 0; i < kills; i++) {
        run_and_kill(newest + 1, random_below(&random, longest));
        remains += case_remains(dir) > 0;
        int64_t before = newest;
        newest = start_again(&ctx);
        assert_true(newest >= before);
        if (i % 10 != 9)
            continue;
        check_each(&ctx, newest);
        *told = -1;
        assert_int_equal(case_save(&ctx, dir, newest, 2), TC_OK);
    }
    tc_ctx_fini(&ctx);
    print_message("%d kills, %d with something left to remove, %lld checkpoints\n", kills, remains,
                  (long long)newest + 1);
    assert_true(remains > kills / 5 && newest > kills / 2); /* else the kills missed what they are about */
}

static int begin_all(void **state) {
    (void)state;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED || !mkdtemp(dir))
        return -1;
    *told = -1;
    return 0;
}

static int end_all(void **state) { return (void)state, case_remove_tree(dir), 0; }

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_any_moment)};
    kills = argc > 1 ? atoi(argv[1]) : kills;
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
