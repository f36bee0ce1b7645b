/* test_draw_inputs.c: what --verify draws for inputs: integers below the smallest table that they index, masks, normal
 * floats, small dims. */
#include "test/unit/cases.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include "runtime/compile/draw_inputs.h"
#include <math.h>
#include <string.h>

typedef struct fixture {
    tc_ctx ctx;
    tc_model *model;
    tc_draw draw;
} fixture;

static void begin(fixture *f, const char *text, uint64_t seed) {
    tc_ctx_init(&f->ctx, "test");
    tc_status status = tc_parse_text(&f->ctx, text, strlen(text), "graph", &f->model);
    if (status == TC_OK)
        status = tc_infer_graph(&f->ctx, f->model->graph);
    if (status == TC_OK)
        status = tc_draw_inputs(&f->ctx, f->model, seed, &f->draw);
    tc_diags_print(&f->ctx, stderr);
    assert_int_equal(status, TC_OK);
}

static void end(fixture *f) {
    tc_model_destroy(f->model);
    tc_ctx_fini(&f->ctx);
}

/* Least and greatest element of an integer input. */
static void assert_range(const fixture *f, const char *name, int64_t least, int64_t greatest) {
    for (size_t i = 0; i < f->draw.n_inputs; i++) {
        const tempo_tensor *t = &f->draw.inputs[i].tensor;
        if (strcmp(f->draw.inputs[i].name, name) != 0)
            continue;
        assert_int_equal(t->dtype, TEMPO_INT64);
        const int64_t *data = t->data;
        int64_t low = data[0], high = data[0];
        for (size_t e = 0; e < t->bytes / sizeof *data; e++) {
            low = data[e] < low ? data[e] : low;
            high = data[e] > high ? data[e] : high;
        }
        assert_int_equal(low, least);
        assert_int_equal(high, greatest);
        return;
    }
    fail_msg("no input %s", name);
}

#define HEAD "<ir_version: 10, opset_import: [\"\": 21]> g "

TEST(tables) {
    fixture f;
    begin(&f,
          HEAD "(int64[40,50] ids, int64[2000] twice, int64[2000] labels, int64[2000,1] picks, int64[2000] free, "
               "float[2000,9] scores,"
               " float[100,2] table, float[30,2] small, int64[2000] zeros, bool[2000] yes)"
               " => (float loss, float[2000,1] picked, int64[2000] y)"
               "<int64[1] flat = {-1}>"
               "{ narrow = Cast<to = 6>(ids) flat_ids = Reshape(narrow, flat) a = Gather(table, flat_ids)"
               "  b = Gather(table, twice) kept = Where(yes, zeros, twice) c = Gather(small, kept)"
               "  loss = SoftmaxCrossEntropyLoss(scores, labels) picked = GatherElements<axis = -1>(scores, picks) y = "
               "Add(free, free) }",
          3);
    assert_range(&f, "ids", 0, 99);
    assert_range(&f, "twice", 0, 29); /* the smaller table counts */
    assert_range(&f, "labels", 0, 8);
    assert_range(&f, "picks", 0, 8);
    assert_range(&f, "free", 0, 1);
    end(&f);
}

TEST(condition_is_no_index) {
    fixture f;
    begin(
        &f,
        HEAD
        "(int64[500] mask, int64[500] row, float[9,2] table, float[a,b,rows] sized, int64[500] ones)"
        " => (float[500,2] y, float[a,b,500] z)"
        "{ yes = Cast<to = 9>(mask) i = Where(yes, ones, ones) y = Gather(table, i) z = Gather<axis = 2>(sized, row) }",
        0);
    assert_range(&f, "mask", 0, 1);
    assert_range(&f, "ones", 0, 8);
    assert_range(&f, "row", 0, 3);                              /* the third symbol is 4 */
    assert_true(*(int64_t *)f.draw.inputs[0].tensor.data == 1); /* the first of a row */
    end(&f);
}

TEST(dims) {
    fixture f;
    begin(&f,
          HEAD "(float[batch,seq] x, float[seq,4,batch] y, float z = {1.5}) => (float[batch,seq] o) { o = Add(x, z) }",
          0);
    assert_int_equal(f.draw.n_inputs, 2); /* z has a default */
    assert_int_equal(f.draw.n_dims, 2);
    assert_string_equal(f.draw.dims[0].name, "batch");
    const int64_t *y = f.draw.inputs[1].tensor.dims;
    assert_true(f.draw.dims[0].value == 2 && f.draw.dims[1].value == 3);
    assert_true(y[0] == 3 && y[1] == 4 && y[2] == 2);
    end(&f);
}

TEST(normal) {
    enum { N = 20000 };
    fixture f, same, other;
    const char *text = HEAD "(float[20000] x, float[20000] y) => (float[20000] z) { z = Add(x, y) }";
    begin(&f, text, 5);
    begin(&same, text, 5);
    begin(&other, text, 6);
    const float *x = f.draw.inputs[0].tensor.data, *y = f.draw.inputs[1].tensor.data;
    double sum = 0, squares = 0, product = 0;
    for (size_t i = 0; i < N; i++) {
        sum += (double)x[i];
        squares += (double)(x[i] * x[i]);
        product += (double)(x[i] * y[i]);
    }
    assert_true(fabs(sum / N) < 0.03 && fabs(squares / N - 1) < 0.05 &&
                fabs(product / N) < 0.03); /* 4 standard errors */
    assert_memory_equal(x, same.draw.inputs[0].tensor.data, N * sizeof *x);
    assert_memory_not_equal(x, other.draw.inputs[0].tensor.data, N * sizeof *x);
    end(&f);
    end(&same);
    end(&other);
}
