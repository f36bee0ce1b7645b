/* test_faults.c: every call that takes memory fails in turn, through one compilation and one run by
 * tempo.h: each time the status is that of a limit, the message tells of memory, and all is given back. And what a
 * failed assertion is to the caller of tempo.h. `all` tries every call, not a part of those behind the first 500. */
#define OWN_MAIN
#include "passes/pipeline/pipeline.h"
#include "test/unit/cases.h"
#include "compiler/onnx/onnx.h"
#include "test/unit/faults.h"
#include "runtime/tempo.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool every_call;

/* Weights in a file of their own that is mapped, one of them at an odd offset, which is copied. */
static const char model_text[] =
    "<ir_version: 10, opset_import: [\"\": 21]>\n"
    "mlp (float[n,3] x, float[n,2] target) => (float loss)\n"
    "<float[3,4] w = [\"location\": \"weights.bin\", \"offset\": \"4\", \"length\": \"48\"],\n"
    " float[4,2] v = [\"location\": \"weights.bin\", \"offset\": \"53\", \"length\": \"32\"],\n"
    " float[4] b = {1, 2, 3, 4}>\n"
    "{\n"
    "    xw = MatMul(x, w)\n"
    "    h = Add(xw, b)\n"
    "    a = Gelu(h)\n"
    "    y = MatMul(a, v)\n"
    "    p = Softmax(y)\n"
    "    d = Sub(p, target)\n"
    "    s = Mul(d, d)\n"
    "    loss = ReduceMean<keepdims = 0>(s)\n"
    "}\n";

static void put_file(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* --- every call fails in turn ----------------------------------------------------------------- */

/* Limits that cannot be read are no limits, and a folder that cannot be synced is not. Weights that cannot be looked at
 * are equal to no others, and for a plan they are mapped again. */
static bool may_go_well(const char *function) {
    static const char *const names[] = {"fopen64", "mmap64", "strdup", "strndup"};
    for (size_t i = 0; i < TC_COUNT(names); i++)
        if (strcmp(names[i], function) == 0)
            return true;
    return false;
}

static void fail_each(void (*work)(faults_outcome *), const char *what) {
    faults_fail_each(work, what, may_go_well, every_call);
}

/* --- a compile -------------------------------------------------------------------------------- */

static void try_compile(faults_outcome *out) {
    static const char *const options[] = {"-o", "train.onnx", "--dim=n=2", "--report=report.html", "--verbose"};
    tempo_compiled *compiled;
    out->status = (int)tempo_compile(
        &(tempo_compile_request){
            .path = "mlp.onnxt", .options = options, .n_options = 5, .wants_model = 1, .wants_report = 1},
        &compiled);
    snprintf(out->message, sizeof out->message, "%s", compiled->messages);
    assert_true(out->status == TC_OK || compiled->n_diagnostics > 0);
    tempo_compiled_free(compiled);
}

TEST(compile) {
    fail_each(try_compile, "compile");
    assert_int_equal(access("train.onnx", R_OK), 0);
}

/* --- a run ------------------------------------------------------------------------------------ */

static void count_event(void *user, const tempo_event *event) { *(size_t *)user += event->node != NULL; }

static tempo_status use(tempo_session *session) {
    static float x[2 * 3] = {1, 2, 3, 4, 5, 6}, target[2 * 2] = {0, 1, 1, 0};
    static const int64_t x_dims[] = {2, 3}, target_dims[] = {2, 2};
    const tempo_tensor inputs[] = {{TEMPO_FLOAT, 2, x_dims, x, sizeof x},
                                   {TEMPO_FLOAT, 2, target_dims, target, sizeof target}};
    size_t events = 0;
    tempo_memory memory;
    tempo_tensor loss, gradient;
    tempo_on_event(session, count_event, &events);
    tempo_seed(session, 1, 2);
    tempo_status status = tempo_bind(session, "x", &inputs[0]);
    status = status ? status : tempo_bind(session, "target", &inputs[1]);
    status = status ? status : tempo_run(session);
    status = status ? status : tempo_output(session, "loss", &loss);
    status = status ? status : tempo_output(session, "w_grad", &gradient);
    status = status ? status : tempo_memory_report(session, &memory);
    return status;
}

static void try_run(faults_outcome *out) {
    tempo_session *session;
    tempo_info info;
    tempo_status status = tempo_open("train.onnx", &(tempo_options){.threads = 1, .seed = 3}, &session);
    if (status == TEMPO_OK)
        status = use(session);
    out->status = (int)status;
    snprintf(out->message, sizeof out->message, "%s", tempo_message(session));
    /* Whatever came before, every call is answered. */
    assert_true(status != TEMPO_OK || tempo_input(session, 0, &info));
    if (status != TEMPO_OK && use(session) != TEMPO_OK)
        assert_true(tempo_message(session)[0]);
    tempo_close(session);
}

TEST(run) { fail_each(try_run, "run"); }

/* What goes wrong in the words of a mistake is out of memory, too. */
static void try_mistake(faults_outcome *out) {
    tempo_session *session;
    tempo_status status = tempo_open("nowhere.onnx", NULL, &session);
    *out = (faults_outcome){status == TEMPO_IO ? 0 : (int)status, ""};
    snprintf(out->message, sizeof out->message, "%s", tempo_message(session));
    assert_true(out->message[0]);
    tempo_close(session);
}

TEST(mistake) {
    const char *failed;
    for (size_t n = 0;; n++) {
        faults_outcome got;
        long live = faults_live();
        faults_begin(n);
        try_mistake(&got);
        faults_end(&failed);
        assert_int_equal(faults_live(), live);
        assert_int_equal(got.status, failed ? TC_LIMIT : 0);
        if (!failed)
            break;
        assert_non_null(strstr(got.message, "memory"));
    }
}

/* --- bugs ------------------------------------------------------------------------------------- */

static void assert_nothing(void *user, const tempo_event *event) {
    (void)event;
    TC_ASSERT(!user);
}

TEST(bug) {
    tempo_session *session;
    tempo_info info;
    float x[6] = {1, 2, 3}, target[4] = {0, 1};
    tempo_tensor tensor = {TEMPO_FLOAT, 2, (int64_t[]){2, 3}, x, sizeof x};
    tempo_tensor wanted = {TEMPO_FLOAT, 2, (int64_t[]){2, 2}, target, sizeof target}, loss;
    assert_int_equal(tempo_open("train.onnx", NULL, &session), TEMPO_OK);
    assert_int_equal(tempo_bind(session, "x", &tensor), TEMPO_OK);
    assert_int_equal(tempo_bind(session, "target", &wanted), TEMPO_OK);
    tempo_on_event(session, assert_nothing, session);
    assert_int_equal(tempo_run(session), TEMPO_BUG);
    assert_non_null(strstr(tempo_message(session), "bug: "));
    assert_non_null(strstr(tempo_message(session), "test_faults.c:"));
    assert_non_null(strstr(tempo_message(session), "assertion failed: !user"));
    assert_int_equal(tempo_output(session, "loss", &loss), TEMPO_BUG);
    assert_int_equal(tempo_run(session), TEMPO_BUG);
    assert_int_equal(tempo_bind(session, "x", &tensor), TEMPO_BUG);
    assert_int_equal(tempo_memory_report(session, &(tempo_memory){0}), TEMPO_BUG);
    tempo_seed(session, 1, 2);
    assert_int_equal(tempo_input_count(session), 0);
    assert_int_equal(tempo_output_info(session, 0, &info), 0);
    assert_non_null(strstr(tempo_message(session), "close the session"));
    tempo_close(session);
}

/* A session that its caller lost by a failure of its own goes with that. */
static tc_status fail_with_session(void *user) {
    assert_int_equal(tempo_open("train.onnx", NULL, user), TEMPO_OK);
    tc_out_of_memory(7);
}

TEST(failure_of_the_caller) {
    const tc_failure *failure;
    tempo_session *session;
    long live = faults_live();
    assert_int_equal(tc_attempt(fail_with_session, &session, &failure), TC_LIMIT);
    assert_string_equal(failure->text, "error: out of memory: 7 bytes wanted");
    assert_int_equal(faults_live(), live);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/test_faults.XXXXXX", weights[256];
    every_call = argc > 1 && strcmp(argv[1], "all") == 0;
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    for (size_t i = 0; i < sizeof weights; i++)
        weights[i] = (char)(i % 4 == 3 ? 0x3d : i);
    put_file("mlp.onnxt", model_text, sizeof model_text - 1);
    put_file("weights.bin", weights, sizeof weights);
    int wrong = run_all_tests(NULL, NULL);
    static const char *const files[] = {"mlp.onnxt", "weights.bin", "train.onnx", "report.html"};
    for (size_t i = 0; i < TC_COUNT(files); i++)
        unlink(files[i]);
    return wrong + (rmdir(folder) != 0); /* nothing else may be left there */
}
