/* test_torch_signature.c: kinds of inputs and what was folded, as PyTorch's exporter writes them, and nonsense. */
#include "test/unit/torch_file.h"
#include "passes/torch/metadata/metadata.h"

#define KIND "pkg.torch.export.graph_signature.InputSpec.kind"
#define FOLDED "pkg.onnxscript.optimizer.folded_from"

static const tc_torch_signature *read_signature(torch_file *f, const char *text) {
    torch_file_read(f, (told){.signature = text});
    return tc_torch_signature_read(f->ctx.arena, f->model->graph);
}

TEST(inputs) {
    torch_file f;
    const tc_torch_signature *s = read_signature(&f, "\n# inputs\n"
                                                     "p_m_w: PARAMETER target='m.w'\n"
                                                     "b_m_mean: BUFFER target='m.mean' persistent=True\n"
                                                     "c_lifted_0: CONSTANT_TENSOR target='lifted_0'\n"
                                                     "x: USER_INPUT\n"
                                                     "odd: SOMETHING target='m.odd'\n"
                                                     "\n# outputs\n"
                                                     "add: BUFFER_MUTATION target='m.mean'\n"
                                                     "p_m_v: PARAMETER target='m.v'\n"
                                                     "loss: USER_OUTPUT\n");
    static const struct {
        const char *token, *target;
        tc_torch_kind kind;
        bool changed;
    } want[] = {
        {"p_m_w", "m.w", TC_TORCH_PARAMETER, false},
        {"b_m_mean", "m.mean", TC_TORCH_BUFFER, true},
        {"c_lifted_0", "lifted_0", TC_TORCH_CONSTANT, false},
        {"x", NULL, TC_TORCH_INPUT, false},
        {"odd", "m.odd", TC_TORCH_UNKNOWN, false},
    };
    assert_int_equal(s->n, 5); /* those of the outputs are none */
    assert_int_equal(s->n_outputs, 1);
    assert_string_equal(s->outputs[0], "loss");
    for (size_t i = 0; i < s->n; i++) {
        assert_string_equal(s->inputs[i].token, want[i].token);
        assert_int_equal(s->inputs[i].kind, want[i].kind);
        assert_int_equal(s->inputs[i].changed, want[i].changed);
        assert_ptr_equal(tc_map_get(s->by_token, want[i].token), &s->inputs[i]);
        if (want[i].target)
            assert_ptr_equal(tc_map_get(s->by_target, want[i].target), &s->inputs[i]);
        else
            assert_null(s->inputs[i].target);
    }
    torch_file_close(&f);
}

TEST(odd_lines) {
    torch_file f;
    assert_null(read_signature(&f, NULL));
    torch_file_close(&f);
    assert_int_equal(read_signature(&f, "")->n, 0);
    torch_file_close(&f);
    /* What a line lacks is not looked for in the next one. */
    const tc_torch_signature *s = read_signature(&f, "a: PARAMETER\nb: BUFFER target='m.b\nc: BUFFER target='m.c'\nd:\n"
                                                     "no colon target='m.e'\n: PARAMETER target=''\n:");
    static const char *const targets[] = {NULL, NULL, "m.c", NULL, NULL, NULL};
    assert_int_equal(s->n, 6);
    for (size_t i = 0; i < s->n; i++) {
        if (targets[i])
            assert_string_equal(s->inputs[i].target, targets[i]);
        else
            assert_null(s->inputs[i].target);
    }
    assert_int_equal(s->inputs[3].kind, TC_TORCH_UNKNOWN);
    torch_file_close(&f);
}

static tc_torch_kind kind_of(told t) {
    torch_file f;
    torch_file_read(&f, t);
    const tc_torch_signature *s = tc_torch_signature_read(f.ctx.arena, f.model->graph);
    tc_torch_kind kind = tc_torch_kind_of(s, f.model->graph->initializers[0]);
    torch_file_close(&f);
    return kind;
}

TEST(kinds) {
    const char *buffer = "b_m_w: BUFFER target='m.w'", *other = "p_m_v: PARAMETER target='m.v'";
    assert_int_equal(kind_of((told){0}), TC_TORCH_UNKNOWN);
    assert_int_equal(kind_of((told){.signature = buffer}), TC_TORCH_BUFFER);
    assert_int_equal(kind_of((told){.signature = other}), TC_TORCH_UNKNOWN);
    assert_int_equal(kind_of((told){.key = KIND, .value = "PARAMETER"}), TC_TORCH_PARAMETER);
    assert_int_equal(kind_of((told){.signature = buffer, .key = KIND, .value = "PARAMETER"}), TC_TORCH_PARAMETER);
    assert_int_equal(kind_of((told){.key = KIND, .value = "PARAMETERS"}), TC_TORCH_UNKNOWN);
    assert_int_equal(kind_of((told){.key = KIND, .value = ""}), TC_TORCH_UNKNOWN);
}

TEST(folded) {
    static const struct {
        const char *text;
        size_t n;
        const char *last;
    } rows[] = {
        {NULL, 0, NULL},          {"[]", 0, NULL}, {"['m.a']", 1, "m.a"}, {"['m.a', 'exp_1']", 2, "exp_1"},
        {"['m.a', 'b", 1, "m.a"}, {"'''", 1, ""},  {"[m.a]", 0, NULL},    {"'", 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        torch_file f;
        torch_file_read(&f, (told){.key = FOLDED, .value = rows[i].text});
        size_t n = 99;
        const char **names = tc_torch_folded_from(f.ctx.arena, f.model->graph->initializers[0], &n);
        assert_int_equal(n, rows[i].n);
        if (n)
            assert_string_equal(names[n - 1], rows[i].last);
        torch_file_close(&f);
    }
}
