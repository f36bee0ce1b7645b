/* test_file.c: what happens to output files when the process does not live to finish them, and to mapped files that
 * shrink. Each case is a child process that dies in its own way. */
#define OWN_MAIN
#include "test/unit/cases.h"
#include "compiler/base/base.h"
#include "compiler/cli/cli.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off
// clang-format on

static char folder[] = "/tmp/test_file_XXXXXX";

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text, size_t size) {
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(ftruncate(fileno(f), (off_t)(size ? size : strlen(text))), 0);
    fclose(f);
}

static unsigned count_files(void) {
    unsigned n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static int in_child(void (*body)(tc_ctx *)) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        tc_ctx ctx;
        signal(SIGBUS, SIG_DFL); /* cmocka has a handler, and ours never takes another's place */
        tc_program_handlers();
        tc_ctx_init(&ctx, "test");
        body(&ctx);
        _exit(99);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

static tc_out_file *half_written(tc_ctx *ctx) {
    tc_out_file *out = NULL;
    if (tc_out_open(ctx, in_folder("out"), &out) != TC_OK || access(tc_out_temp_path(out), F_OK) != 0)
        _exit(98);
    fputs("half", tc_out_stream(out));
    fflush(tc_out_stream(out));
    return out;
}

static void by_signal(tc_ctx *ctx) {
    half_written(ctx);
    raise(SIGTERM);
}

static void by_exit(tc_ctx *ctx) {
    half_written(ctx);
    exit(7);
}

static tc_status out_of_memory(void *ctx) {
    half_written(ctx);
    tc_out_of_memory(1);
}

static void by_memory(tc_ctx *ctx) {
    const tc_failure *failure;
    tc_status status = tc_attempt(out_of_memory, ctx, &failure);
    _exit(failure && strcmp(failure->text, "error: out of memory: 1 bytes wanted") == 0 ? (int)status : 97);
}

static void by_abandon(tc_ctx *ctx) {
    tc_out_abandon(half_written(ctx));
    _exit(0);
}

static void by_commit(tc_ctx *ctx) { _exit(tc_out_commit(ctx, half_written(ctx)) == TC_OK ? 0 : 1); }

static void by_limit(tc_ctx *ctx) {
    const struct rlimit limit = {2, 2};
    tc_out_file *out = NULL;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || tc_out_open(ctx, in_folder("out"), &out) != TC_OK)
        _exit(98);
    fputs("long", tc_out_stream(out));
    _exit((int)tc_out_commit(ctx, out));
}

TEST(early_death_leaves_the_old_file) {
    put("out", "old", 0);
    int status = in_child(by_signal);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(count_files(), 1);
    assert_int_equal(WEXITSTATUS(in_child(by_exit)), 7);
    assert_int_equal(count_files(), 1);
    assert_int_equal(WEXITSTATUS(in_child(by_memory)), TC_LIMIT);
    assert_int_equal(count_files(), 1);
    status = in_child(by_limit); /* of the size of files: an error of a write, not the end of the process */
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == TC_IO);
    assert_int_equal(count_files(), 1);
    assert_int_equal(WEXITSTATUS(in_child(by_abandon)), 0);
    assert_int_equal(count_files(), 1);
    char text[16] = {0};
    FILE *f = fopen(in_folder("out"), "rb");
    assert_int_equal(fread(text, 1, 15, f), 3);
    assert_string_equal(text, "old");
    fclose(f);
    assert_int_equal(WEXITSTATUS(in_child(by_commit)), 0);
    assert_int_equal(count_files(), 1);
    f = fopen(in_folder("out"), "rb");
    assert_int_equal(fread(text, 1, 15, f), 4);
    fclose(f);
    unlink(in_folder("out"));
}

static void read_what_shrinks(tc_ctx *ctx) {
    tc_file file;
    if (tc_file_open(ctx, in_folder("big"), &file) != TC_OK || !file.map || truncate(in_folder("big"), 0) != 0)
        _exit(98);
    volatile char sum = 0;
    for (size_t i = 0; i < file.size; i += 4096)
        sum = (char)(sum + ((const char *)file.data)[i]);
}

TEST(shrinking_file_ends_with_a_message) {
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the sanitizer's own handler comes first */
#endif
    put("big", "", 4 << 20);
    assert_int_equal(WEXITSTATUS(in_child(read_what_shrinks)), TC_IO);
    unlink(in_folder("big"));
}

TEST(pipes_are_read_whole) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    tc_file file;
    static char big[300000];
    memset(big, 'x', sizeof big);
    FILE *f = fopen(in_folder("plain"), "wb");
    fwrite(big, 1, sizeof big, f);
    fclose(f);
    char command[300];
    snprintf(command, sizeof command, "cat %s", in_folder("plain"));
    FILE *pipe = popen(command, "r");
    int saved = dup(STDIN_FILENO);
    dup2(fileno(pipe), STDIN_FILENO);
    assert_int_equal(tc_file_open(&ctx, "-", &file), TC_OK);
    dup2(saved, STDIN_FILENO);
    close(saved);
    pclose(pipe);
    assert_int_equal(file.size, sizeof big);
    assert_memory_equal(file.data, big, sizeof big);
    tc_file_close(&file);
    tc_ctx_fini(&ctx);
    unlink(in_folder("plain"));
}

int main(void) {
    if (!mkdtemp(folder))
        return 1;
    int failed = run_all_tests(NULL, NULL);
    rmdir(folder);
    return failed;
}
