/* test_train_padding.c: which inputs are labels of a loss that ignores some. */
#include "test/unit/cases.h"
#include "programs/tempo-train/data/train_padding.h"
#include "compiler/onnx/onnx.h"
#include "compiler/text/text.h"
#include <string.h>

#define SCORES "g (float[n,4] s, int64[n] y, int64[n] z) => (float[] loss) "

static void check(const char *body, double y, double z) {
    tc_ctx ctx;
    tc_model *model;
    tc_ctx_init(&ctx, "test");
    const char *text = tc_arena_printf(ctx.arena, "<ir_version: 10, opset_import: [\"\": 21]> " SCORES "{ %s }", body);
    if (tc_parse_text(&ctx, text, strlen(text), "case", &model) != TC_OK) {
        tc_diags_print(&ctx, stderr);
        fail_msg("not a graph: %s", body);
    }
    assert_true(train_padding_of(model->graph, tc_graph_find(model->graph, "y")) == y);
    assert_true(train_padding_of(model->graph, tc_graph_find(model->graph, "z")) == z);
    assert_true(train_padding_of(model->graph, tc_graph_find(model->graph, "s")) == 0);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
}

TEST(labels_are_found) {
    check("loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (s, y)", -100, 0);
    check("loss = SoftmaxCrossEntropyLoss <ignore_index = 7> (s, z)", 0, 7);
    check("loss = SoftmaxCrossEntropyLoss (s, y)", 0, 0);
    check("p = LogSoftmax (s) loss = NegativeLogLikelihoodLoss <ignore_index = -1> (p, y)", -1, 0);
    check("f = Constant <value_ints = [-1]> () a = Reshape (y, f) b = Cast <to = 7> (a) c = Identity (b)"
          "loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (s, c)",
          -100, 0);
    /* Shapes, and numbers made of others, are no labels. */
    check("f = Shape (z) a = Reshape (y, f) loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (s, a)", -100, 0);
    check("a = Add (y, z) loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (s, a)", 0, 0);
}

/* What PyTorch's exporters make of transformers' models; GPT-2 shifts its labels. */
TEST(labels_of_exports) {
    static const struct {
        const char *model, *input;
        double padding;
    } cases[] = {
        {"bert-dyn_18", "labels", -100},  {"bert-ts_14", "labels", -100},        {"bert-dyn_18", "input_ids", 0},
        {"gpt2-dyn_21", "labels", -100},  {"gpt2-dyn_21", "input_ids", 0},       {"t5-dyn_18", "labels", -100},
        {"llama-dyn_21", "labels", -100}, {"llama-dyn_21", "attention_mask", 0},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        tc_ctx ctx;
        tc_model *model;
        tc_ctx_init(&ctx, "test");
        const char *path = tc_arena_printf(ctx.arena, MODELS "/%s/model.onnx", cases[i].model);
        assert_int_equal(tc_read_file(&ctx, path, &model), TC_OK);
        double found = train_padding_of(model->graph, tc_graph_find(model->graph, cases[i].input));
        if (found != cases[i].padding)
            fail_msg("%s of %s: %g", cases[i].input, cases[i].model, found);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
}
