/* test_checkpoint.c: checkpoints of training runs: what is saved is loaded, whatever the disk refuses leaves the old
 * ones, remains of dead processes go, and of a thousand flipped bits each is found. */
#define OWN_MAIN
#include "test/unit/checkpoint_case.h"
#include "test/unit/random_below.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char top[] = "/tmp/test_checkpoint_XXXXXX", dir[64];
static tc_ctx ctx;

static int begin_test(void **state) {
    (void)state;
    int64_t newest;
    tc_ctx_init(&ctx, "test");
    snprintf(dir, sizeof dir, "%s/c", top);
    return case_begin(&ctx, dir, &newest) == TC_OK && newest == -1 ? 0 : -1;
}

static int end_test(void **state) {
    (void)state;
    tc_ctx_fini(&ctx);
    case_remove_tree(dir);
    return 0;
}

static void save(int64_t step) { assert_int_equal(case_save(&ctx, dir, step, 2), TC_OK); }

/* That the checkpoint of this step is loaded; with so many words of warning. */
static void check_load(int64_t step, const char *warning) {
    train_checkpoint c;
    size_t before = ctx.n_diags;
    assert_int_equal(train_checkpoint_load(&ctx, dir, &c), TC_OK);
    case_check(&c, step);
    train_checkpoint_close(&c);
    assert_int_equal(ctx.n_diags, before + (warning != NULL));
    if (warning && !strstr(ctx.diags[before].message, warning))
        fail_msg("'%s' does not say '%s'", ctx.diags[before].message, warning);
}

/* Changes a byte of a file; the file becomes shorter where the byte is behind its end. */
static void damage(const char *file, off_t at, unsigned char bits) {
    unsigned char byte;
    int fd = open(case_path(dir, file), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= bits;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static off_t size_of(const char *file) {
    struct stat st;
    assert_int_equal(stat(case_path(dir, file), &st), 0);
    return st.st_size;
}

/* --- saving and loading ----------------------------------------------------------------------- */

TEST_WITH(kept_ones, begin_test, end_test) {
    const char *before = tc_arena_alloc(ctx.arena, 1, 1);
    for (int64_t step = 8; step <= 12; step += 2)
        save(step); /* by number, not by name: 10 is behind 8 */
    assert_in_range((const char *)tc_arena_alloc(ctx.arena, 1, 1) - before, 1, 16); /* nothing is left of a save */
    check_load(12, NULL);
    assert_false(case_exists(dir, "step-8"));
    assert_true(case_exists(dir, "step-10"));
    assert_int_equal(case_remains(dir), 0);
    int64_t newest;
    assert_int_equal(case_begin(&ctx, dir, &newest), TC_OK);
    assert_int_equal(newest, 12);
    assert_int_equal(case_save(&ctx, dir, 14, 0), TC_OK);
    assert_true(case_exists(dir, "step-10"));
    assert_int_equal(case_save(&ctx, dir, 16, 1), TC_OK);
    assert_false(case_exists(dir, "step-14"));
    check_load(16, NULL);
}

TEST_WITH(none_at_all, begin_test, end_test) {
    train_checkpoint c;
    assert_int_equal(train_checkpoint_load(&ctx, dir, &c), TC_OK);
    assert_null(c.path);
    train_checkpoint_close(&c);
    assert_int_equal(train_checkpoint_load(&ctx, case_path(dir, "gone"), &c), TC_OK);
    assert_null(c.path);
    assert_int_equal(ctx.n_diags, 0);
}

/* Modes as of any other file, and text in `state`. */
TEST_WITH(usual_files, begin_test, end_test) {
    char line[64];
    struct stat st;
    mode_t mask = umask(022);
    save(1);
    umask(mask);
    assert_int_equal(stat(case_path(dir, "step-1"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(stat(case_path(dir, "step-1/optimizer.safetensors"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    FILE *file = fopen(case_path(dir, "step-1/state"), "r");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "tempo-train checkpoint 1\n");
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "step 1\n");
    fclose(file);
}

/* --- damage ----------------------------------------------------------------------------------- */

TEST_WITH(older_one_instead, begin_test, end_test) {
    save(1);
    save(2);
    damage("step-2/weights.safetensors", size_of("step-2/weights.safetensors") - 10, 4);
    check_load(1, "step-2' is skipped: weights.safetensors: tensor 'layer.0/bias' is damaged");
    assert_true(case_exists(dir, "step-2.damaged"));
    check_load(1, NULL);
    save(2);
    check_load(2, NULL);
}

TEST_WITH(missing_files, begin_test, end_test) {
    static const char *const files[] = {"state", "weights.safetensors", "optimizer.safetensors"};
    save(1);
    for (size_t i = 0; i < TC_COUNT(files); i++) {
        char name[64];
        save(2);
        snprintf(name, sizeof name, "step-2/%s", files[i]);
        assert_int_equal(unlink(case_path(dir, name)), 0);
        check_load(1, files[i]);
        assert_true(case_exists(dir, "step-2")); /* it could be there again: nothing says that it is damaged */
    }
    save(2);
    assert_int_equal(truncate(case_path(dir, "step-2/state"), 100), 0);
    check_load(1, "state: it is damaged");
    assert_int_equal(rename(case_path(dir, "step-1"), case_path(dir, "step-3")), 0);
    train_checkpoint c;
    assert_int_equal(train_checkpoint_load(&ctx, dir, &c), TC_BAD_INPUT);
    assert_non_null(strstr(ctx.diags[ctx.n_diags - 1].message, "none of the 1 checkpoints"));
    assert_non_null(strstr(ctx.diags[ctx.n_diags - 1].message, "state: it is of step 1"));
}

TEST_WITH(all_are_damaged, begin_test, end_test) {
    train_checkpoint c;
    save(1);
    save(2);
    damage("step-1/optimizer.safetensors", size_of("step-1/optimizer.safetensors") - 1, 1);
    damage("step-2/optimizer.safetensors", size_of("step-2/optimizer.safetensors") - 1, 1);
    assert_int_equal(train_checkpoint_load(&ctx, dir, &c), TC_BAD_INPUT);
    assert_int_equal(ctx.n_diags, 3);
    assert_non_null(strstr(ctx.diags[2].message, "in the newest, optimizer.safetensors: tensor 'embed.moment2'"));
    assert_true(case_exists(dir, "step-1") && case_exists(dir, "step-2"));
}

/* A whole file of another step among the others. */
TEST_WITH(mixed_up, begin_test, end_test) {
    save(1);
    save(2);
    assert_int_equal(rename(case_path(dir, "step-1/weights.safetensors"), case_path(dir, "step-2/weights.safetensors")),
                     0);
    train_checkpoint c;
    assert_int_equal(train_checkpoint_load(&ctx, dir, &c), TC_BAD_INPUT);
    assert_non_null(strstr(ctx.diags[0].message, "weights.safetensors: tensor 'counts' is damaged"));
}

/* The tensor that a byte of a file lies in; "" where it is the header. */
static void find_tensor(const char *file, off_t at, char *out, size_t size) {
    rt_safetensors s;
    assert_int_equal(rt_safetensors_open(&ctx, case_path(dir, file), &s), TC_OK);
    uint64_t end = s.header;
    out[0] = '\0';
    for (size_t i = 0; i < s.n; i++) {
        if ((uint64_t)at >= end && (uint64_t)at < end + s.arrays[i].tensor.bytes)
            snprintf(out, size, "tensor '%s' is damaged", s.arrays[i].name);
        end += s.arrays[i].tensor.bytes;
    }
    assert_int_equal(end, size_of(file));
    rt_safetensors_close(&s);
}

/* A thousand bits, a third in each file, half of those in headers: each is found, and the file is named, and the
 * tensor. */
TEST_WITH(flipped_bits, begin_test, end_test) {
    static const char *const files[] = {"state", "weights.safetensors", "optimizer.safetensors"};
    uint32_t random = 1;
    save(1);
    save(2);
    for (int i = 0; i < 1000; i++) {
        char file[64], tensor[64] = "";
        snprintf(file, sizeof file, "step-2/%s", files[i % 3]);
        off_t size = size_of(file), most = i % 2 && size > 600 ? 600 : size;
        off_t at = (off_t)random_below(&random, (uint32_t)most);
        unsigned char bits = (unsigned char)(1 << random_below(&random, 8));
        if (i % 3 > 0)
            find_tensor(file, at, tensor, sizeof tensor);
        damage(file, at, bits);
        size_t before = ctx.n_diags;
        check_load(1, files[i % 3]);
        if (tensor[0])
            assert_non_null(strstr(ctx.diags[before].message, tensor));
        assert_int_equal(rename(case_path(dir, "step-2.damaged"), case_path(dir, "step-2")), 0);
        damage(file, at, bits);
        check_load(2, NULL);
    }
}

/* --- remains ---------------------------------------------------------------------------------- */

static void put_remains(const char *folder) {
    char name[96];
    assert_int_equal(mkdir(case_path(dir, folder), 0777), 0);
    snprintf(name, sizeof name, "%s/half", folder);
    close(open(case_path(dir, name), O_CREAT | O_WRONLY, 0666));
}

TEST_WITH(remains_of_the_dead, begin_test, end_test) {
    static const char *const dead[] = {"step-9.tmp-1234", "step-1.tmp-1", "step-2.old-4000000000"};
    int64_t newest;
    save(1);
    save(2);
    for (int i = 0; i < 3; i++)
        put_remains(dead[i]);
    put_remains("step-3.tmp-x");
    put_remains("others");
    assert_int_equal(case_begin(&ctx, dir, &newest), TC_OK);
    for (int i = 0; i < 3; i++)
        assert_false(case_exists(dir, dead[i]));
    assert_true(case_exists(dir, "step-3.tmp-x") && case_exists(dir, "others/half"));
    /* It died while it gave the step a new checkpoint. */
    assert_int_equal(rename(case_path(dir, "step-2"), case_path(dir, dead[2])), 0);
    assert_int_equal(case_begin(&ctx, dir, &newest), TC_OK);
    check_load(2, NULL);
}

/* Two runs have no folder together, whatever their numbers are; the lock goes with a process that is killed. */
TEST_WITH(one_run_at_a_time, begin_test, end_test) {
    int64_t newest;
    train_lock mine, its;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(train_checkpoint_begin(&ctx, dir, &its, &newest) == TC_OK && kill(getpid(), SIGKILL) == 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && case_exists(dir, ".tempo-train.lock"));
    assert_int_equal(train_checkpoint_begin(&ctx, dir, &mine, &newest), TC_OK);
    assert_int_equal(train_checkpoint_begin(&ctx, dir, &its, &newest), TC_IO);
    assert_non_null(strstr(ctx.diags[0].message, "another run uses"));
    train_unlock_folder(&mine);
    assert_false(case_exists(dir, ".tempo-train.lock"));
}

/* What somebody else put there stays: a folder, a file in a checkpoint's, what a link leads to. */
TEST_WITH(folders_of_others, begin_test, end_test) {
    static const char *const names[] = {"step-1/half", "step-2/notes", "elsewhere/state", "step-4/state"};
    put_remains("step-1");
    save(2);
    save(3);
    close(open(case_path(dir, names[1]), O_CREAT | O_WRONLY, 0666));
    assert_int_equal(rename(case_path(dir, "step-3"), case_path(dir, "elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", case_path(dir, "step-4")), 0);
    assert_int_equal(symlink("elsewhere", case_path(dir, "step-9.tmp-1")), 0);
    for (int64_t step = 5; step < 9; step++)
        save(step);
    assert_false(case_exists(dir, "step-5"));
    assert_int_equal(case_save(&ctx, dir, 1, 2), TC_IO);
    assert_int_equal(case_save(&ctx, dir, 4, 2), TC_IO);
    int64_t newest;
    assert_int_equal(case_begin(&ctx, dir, &newest), TC_OK);
    for (size_t i = 0; i < TC_COUNT(names); i++)
        assert_true(case_exists(dir, names[i]));
}

/* --- what the system refuses ------------------------------------------------------------------ */

static void check_failed_save(tc_status status, const char *why, int remains) {
    assert_int_equal(status, TC_IO);
    if (!strstr(ctx.diags[ctx.n_diags - 1].message, why))
        fail_msg("'%s' does not say '%s'", ctx.diags[ctx.n_diags - 1].message, why);
    assert_int_equal(case_remains(dir), remains);
    check_load(2, NULL);
    assert_true(case_exists(dir, "step-1"));
}

TEST_WITH(file_too_large, begin_test, end_test) {
    const struct rlimit limit = {8192, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    save(1);
    save(2);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    tc_status status = case_save(&ctx, dir, 3, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    check_failed_save(status, "File too large", 0);
}

TEST_WITH(full_disk, begin_test, end_test) {
    train_checkpoint c;
    if (mount("tmpfs", dir, "tmpfs", 0, "size=192k") != 0) {
        print_message("no file system may be mounted here: %s\n", strerror(errno));
        skip();
    }
    save(1);
    save(2);
    tc_status told = case_save(&ctx, dir, 3, 2); /* there is no room for a third one beside two */
    const char *message = ctx.n_diags ? ctx.diags[ctx.n_diags - 1].message : "";
    bool says = strstr(message, "no room for a checkpoint in") && strstr(message, "MiB are left");
    tc_status loaded = train_checkpoint_load(&ctx, dir, &c);
    int64_t step = loaded == TC_OK ? c.progress.step : -1;
    int remains = case_remains(dir);
    train_checkpoint_close(&c);
    assert_int_equal(umount(dir), 0);
    assert_int_equal(told, TC_IO);
    assert_true(says);
    assert_int_equal(step, 2);
    assert_int_equal(remains, 0);
}

/* In a process that is nobody: the superuser writes everywhere. Exit code 77: it cannot be nobody. */
static void read_only_child(void) {
    int64_t newest;
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(77);
    if (case_begin(&ctx, dir, &newest) != TC_IO)
        _exit(1);
    check_failed_save(case_save(&ctx, dir, 3, 2), "Permission denied", 0);
    _exit(0);
}

TEST_WITH(read_only_folder, begin_test, end_test) {
    int status;
    save(1);
    save(2);
    assert_int_equal(chmod(top, 0755), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        read_only_child();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(chmod(dir, 0755), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

TEST_WITH(no_place_for_it, begin_test, end_test) {
    int64_t newest;
    assert_int_equal(case_begin(&ctx, case_path(dir, "no/where"), &newest), TC_IO);
    assert_non_null(strstr(ctx.diags[0].message, "can't make the folder"));
    close(open(case_path(dir, "file"), O_CREAT | O_WRONLY, 0666));
    assert_int_equal(case_begin(&ctx, case_path(dir, "file"), &newest), TC_IO);
    assert_int_equal(case_save(&ctx, case_path(dir, "no/where"), 1, 2), TC_IO);
}

static int begin_all(void **state) { return (void)state, mkdtemp(top) ? 0 : -1; }
static int end_all(void **state) { return (void)state, rmdir(top); }

int main(void) { return run_all_tests(begin_all, end_all); }
