/* test_tempo_compile.c: tempoc as a call: results, messages and statuses as values, side by side in threads, and
 * nothing left where it is cut short. ./check runs it under ThreadSanitizer, too. */
#include "test/unit/cases.h"
#include "runtime/tempo.h"
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text[] = "<ir_version: 10, opset_import: [\"\" : 21]> g (float[n,4] x) => (float loss)\n"
                           "<float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {\n"
                           "  y = MatMul (x, w) h = Gelu (y) loss = ReduceMean <keepdims = 0> (h)\n}\n";

static const tempo_compile_request whole = {.bytes = text, .size = sizeof text - 1, .name = "g"};

static tempo_status compile_with(tempo_compile_request request, const char *const *options, size_t n,
                                 tempo_compiled **out) {
    request.options = options;
    request.n_options = n;
    return tempo_compile(&request, out);
}

static void assert_holds(const char *all, const char *part) {
    if (!strstr(all, part))
        fail_msg("'%s' is not in: %s", part, all);
}

TEST(values) {
    tempo_compiled *c;
    tempo_compile_request request = whole;
    request.wants_model = request.wants_report = 1;
    const char *options[] = {"--dim", "n=8", "--recipe=exact", "--emit=text", "-q"};
    assert_int_equal(compile_with(request, options, 5, &c), TEMPO_OK);
    assert_holds(c->model, "w_grad");
    assert_int_equal(c->model_size, strlen(c->model));
    assert_holds(c->report, "\"trained\":\t[\"w\"]");
    assert_holds(c->report, "\"dims\":\t[\"n=8\"]");
    assert_string_equal(c->text, "");
    assert_string_equal(c->dumps, "");
    assert_int_equal(c->n_diagnostics, 0);
    tempo_compiled_free(c);
    tempo_compiled_free(NULL);
    const char *loud[] = {"--print-ir-after=autodiff", "--time"};
    assert_int_equal(compile_with(whole, loud, 2, &c), TEMPO_OK);
    assert_holds(c->dumps, "# IR after autodiff");
    assert_holds(c->text, "canonicalize ");
    assert_true(c->model == NULL && c->report == NULL);
    tempo_compiled_free(c);
}

TEST(failures) {
    static const struct {
        tempo_status status;
        const char *option, *message, *hint;
    } rows[] = {{TEMPO_USAGE, "--recip=none", "unknown option --recip", "did you mean --recipe"},
                {TEMPO_USAGE, "--recipe=nope", "there is no recipe 'nope'", "the recipes are"},
                {TEMPO_USAGE, "--help", "options that print and exit", NULL},
                {TEMPO_USAGE, "--list-rules", "options that print and exit", NULL},
                {TEMPO_USAGE, "-o-", "expected the name of a file", NULL},
                {TEMPO_USAGE, "other.onnx", "unexpected other.onnx", NULL},
                {TEMPO_IO, "-o/no such folder/x.onnx", "cannot write to the folder", NULL},
                {TEMPO_USAGE, "--loss=y", "no output named 'y'", "its outputs are"},
                {TEMPO_IO, "--checkpoint=/no such file", "No such file", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tempo_compiled *c;
        tempo_status status = compile_with(whole, &rows[i].option, 1, &c);
        assert_true(c->n_diagnostics > 0);
        const tempo_diagnostic *d = &c->diagnostics[c->n_diagnostics - 1];
        if (status != rows[i].status)
            fail_msg("%s: %d, %s", rows[i].option, status, c->messages);
        assert_true(d->severity == TEMPO_ERROR && d->status == status);
        assert_holds(d->message, rows[i].message);
        assert_holds(c->messages, d->message);
        assert_true(!rows[i].hint || (d->hint && strstr(d->hint, rows[i].hint)));
        tempo_compiled_free(c);
    }
    tempo_compiled *c;
    assert_int_equal(tempo_compile(&(tempo_compile_request){0}, &c), TEMPO_USAGE);
    tempo_compiled_free(c);
    assert_int_equal(tempo_compile(&(tempo_compile_request){.path = "no such file.onnx"}, &c), TEMPO_IO);
    assert_string_equal(c->diagnostics[0].file, "no such file.onnx");
    tempo_compiled_free(c);
    assert_int_equal(tempo_compile(&(tempo_compile_request){.bytes = "\x08\x08?", .size = 3}, &c), TEMPO_BAD_INPUT);
    assert_string_equal(c->diagnostics[0].file, "model");
    tempo_compiled_free(c);
}

TEST(files) {
    char folder[] = "/tmp/test_tempo_compileXXXXXX", in[80], out[80], word[90];
    struct stat st;
    tempo_compiled *c;
    assert_non_null(mkdtemp(folder));
    snprintf(in, sizeof in, "%s/in.onnxt", folder);
    snprintf(out, sizeof out, "%s/out.onnx", folder);
    FILE *file = fopen(in, "w");
    fputs(text, file);
    fclose(file);
    const tempo_compile_request request = {.path = in, .wants_report = 1};
    const char *options[] = {"-o", out};
    assert_int_equal(compile_with(request, options, 2, &c), TEMPO_OK);
    assert_holds(c->text, "saved");
    assert_holds(c->report, out);
    tempo_compiled_free(c);
    tempo_session *s;
    assert_int_equal(tempo_open(out, NULL, &s), TEMPO_OK);
    assert_int_equal(tempo_output_count(s), 2);
    tempo_close(s);
    /* What is read is not written over; the next call knows nothing of this one. */
    snprintf(word, sizeof word, "-o%s", in);
    const char *over[] = {word};
    assert_int_equal(compile_with(request, over, 1, &c), TEMPO_USAGE);
    assert_holds(c->messages, "would write over");
    tempo_compiled_free(c);
    assert_int_equal(compile_with(request, NULL, 0, &c), TEMPO_OK);
    tempo_compiled_free(c);
    assert_true(stat(in, &st) == 0 && st.st_size == (off_t)strlen(text));
    unlink(in);
    unlink(out);
    assert_int_equal(rmdir(folder), 0);
}

/* Every option that compiles several times: the numbers are those of the program (test/cli). */
TEST(several_compilations) {
    static const char *const options[][3] = {{"--dim=n=8", "--recipe=auto", "-v"},
                                             {"--fit=512MiB", "--fit-dim=n", "--threads=1"},
                                             {"--dim=n=64", "--memory-budget=99%", "--remat-time=0.01"},
                                             {"--dim=n=64", "--pareto=2", "--remat-time=0.01"},
                                             {"--dim=n=8", "--verify", "--recipe=tiled"}};
    static const char *const words[] = {"rewrite", "is the largest in", "budget", "pareto", "verified on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        tempo_compiled *c;
        if (compile_with(whole, options[i], 3, &c) != TEMPO_OK)
            fail_msg("%s: %s", options[i][1], c->messages);
        assert_holds(c->text, words[i]);
        tempo_compiled_free(c);
    }
}

TEST(stops) {
    static const volatile int stop = 1;
    tempo_compiled *c;
    tempo_compile_request request = whole;
    request.stop = &stop;
    static const char *const options[][1] = {{"--recipe=exact"}, {"--fit=512MiB"}, {"--recipe=auto"}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(compile_with(request, options[i], 1, &c), TEMPO_LIMIT);
        assert_holds(c->messages, "stopped, as the caller asked");
        tempo_compiled_free(c);
    }
}

TEST(numbers_have_points) {
    tempo_compiled *c;
    tempo_compile_request request = whole;
    request.wants_report = 1;
    const char *before = setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where there is one */
    assert_int_equal(tempo_compile(&request, &c), TEMPO_OK);
    assert_null(strstr(strstr(c->report, "\"seconds\""), ","));
    tempo_compiled_free(c);
    if (before)
        setlocale(LC_NUMERIC, "C");
}

/* --- threads ------------------------------------------------------------------------------------ */

enum { WORKERS = 4 };

static void *work(void *name) {
    tempo_compiled *c;
    tempo_compile_request request = whole;
    char word[90];
    request.wants_model = request.wants_report = 1;
    request.name = name;
    snprintf(word, sizeof word, "-o/tmp/test_tempo_compile-%d-%s.onnx", (int)getpid(), (const char *)name);
    const char *options[] = {"--dim=n=16", "--memory-budget=60%", "--remat-time=0.01", "--best-effort", word};
    tempo_status status = compile_with(request, options, 5, &c);
    (void)unlink(word + 2);
    char *seen = malloc(c->model_size + 16);
    snprintf(seen, 16, "%d %zu", (int)status, c->n_diagnostics);
    if (c->model)
        memcpy(seen + 16, c->model, c->model_size);
    tempo_compiled_free(c);
    return seen;
}

TEST(threads) {
    static char names[WORKERS][2] = {"a", "b", "c", "d"};
    pthread_t threads[WORKERS];
    char *alone = work(names[0]);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, names[i]), 0);
    for (int i = 0; i < WORKERS; i++) {
        void *seen;
        pthread_join(threads[i], &seen);
        assert_string_equal(seen, alone);
        assert_memory_equal((char *)seen + 16, alone + 16, 8);
        free(seen);
    }
    free(alone);
}
