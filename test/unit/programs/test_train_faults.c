/* test_train_faults.c: every call that takes memory fails in turn while a folder of samples is opened and batches are
 * made of it: mapped files, one with an array that is copied, a .safetensors. */
#define OWN_MAIN
#include "test/unit/cases.h"
#include "test/unit/faults.h"
#include "compiler/base/base.h"
#include "runtime/files/files.h"
#include "programs/tempo-train/data/train_data.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAMPLES = 5, TOKENS = 9 };

/* --- files ------------------------------------------------------------------------------------ */

/* The sum of zip archives: polynomial 0x04C11DB7, bits reversed. */
static uint32_t crc32_of(const unsigned char *bytes, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* The first array of the archive is one in Fortran's order from now on, which is copied. */
static void turn_order(const char *path, size_t elements) {
    static unsigned char bytes[8192];
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file), begin = 30u + bytes[26] + bytes[28], end = begin + 10;
    end += bytes[begin + 8] + 256u * bytes[begin + 9] + elements;
    for (size_t i = begin; i < end - 5; i++)
        if (memcmp(bytes + i, "False", 5) == 0)
            memcpy(bytes + i, "True ", 5);
    uint32_t sum = crc32_of(bytes + begin, end - begin);
    memcpy(bytes + 14, &sum, sizeof sum);
    for (size_t i = end; i < n - 4; i++) /* the first entry of the directory */
        if (memcmp(bytes + i, "PK\1\2", 4) == 0) {
            memcpy(bytes + i + 16, &sum, sizeof sum);
            break;
        }
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void write_files(void) {
    static float x[SAMPLES][3];
    static int32_t ids[TOKENS];
    static int64_t offsets[SAMPLES + 1] = {0, 2, 3, 3, 7, TOKENS},
                                     shapes[3][2] = {{SAMPLES, 3}, {TOKENS}, {SAMPLES + 1}};
    const rt_array arrays[] = {
        {.name = "x", .tensor = {TEMPO_FLOAT, 2, shapes[0], x, sizeof x}},
        {.name = "input_ids", .tensor = {TEMPO_INT32, 1, shapes[1], ids, sizeof ids}},
        {.name = "input_ids.offsets", .tensor = {TEMPO_INT64, 1, shapes[2], offsets, sizeof offsets}},
        {.name = "strange", .tensor = {TEMPO_INT32, 1, shapes[1], ids, sizeof ids}},
    };
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    assert_int_equal(mkdir("data", 0700), 0);
    assert_int_equal(rt_npz_write(&ctx, "data/a.npz", arrays, TC_COUNT(arrays)), TC_OK);
    assert_int_equal(rt_npz_write(&ctx, "data/b.npz", arrays, TC_COUNT(arrays)), TC_OK);
    assert_int_equal(rt_safetensors_write(&ctx, "data/c.safetensors", arrays, TC_COUNT(arrays), NULL, 0), TC_OK);
    turn_order("data/b.npz", sizeof x);
    tc_ctx_fini(&ctx);
}

/* --- batches ---------------------------------------------------------------------------------- */

static tc_status make_batches(tc_ctx *ctx, train_data *data) {
    train_batch batch;
    for (int64_t i = 0; i < train_data_batches(data); i++)
        TC_TRY(train_data_batch(ctx, data, 0, i, &batch));
    return TC_OK;
}

static tc_status use(void *user) {
    faults_outcome *out = user;
    static const int64_t rows[] = {-1, 3}, text[] = {-1, -1};
    const train_input inputs[] = {
        {"x", TEMPO_FLOAT, 2, rows, false, 0},
        {"input_ids", TEMPO_INT64, 2, text, false, 0},
        {"attention_mask", TEMPO_INT64, 2, text, false, 0},
    };
    const train_data_options options = {.path = "data", .batch = 4, .seed = 1, .shuffle = true, .bucket = 2};
    train_data *data;
    tc_ctx ctx;
    tc_ctx_init(&ctx, "test");
    tc_status status = train_data_open(&ctx, &options, inputs, TC_COUNT(inputs), &data);
    if (status == TC_OK)
        status = make_batches(&ctx, data);
    if (status == TC_OK && ctx.n_diags != 3) /* on what is strange, what is copied, what is empty */
        status = TC_BUG;
    train_data_close(data);
    for (size_t i = 0; i < ctx.n_diags; i++)
        snprintf(out->message, sizeof out->message, "%s", ctx.diags[i].message);
    tc_ctx_fini(&ctx);
    return status;
}

static void try_batches(faults_outcome *out) {
    const tc_failure *failure;
    out->status = (int)tc_attempt(use, out, &failure);
    if (failure)
        snprintf(out->message, sizeof out->message, "%s", failure->text);
}

/* A limit that cannot be read is none. */
static bool may_go_well(const char *function) { return strcmp(function, "fopen64") == 0; }

TEST(batches_without_memory) { faults_fail_each(try_batches, "batches", may_go_well, true); }

int main(void) {
    char folder[] = "/tmp/test_train_faults_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    write_files();
    int failed = run_all_tests(NULL, NULL);
    unlink("data/a.npz");
    unlink("data/b.npz");
    unlink("data/c.safetensors");
    rmdir("data");
    rmdir(folder);
    return failed;
}
