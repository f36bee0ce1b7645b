/* test_torch_calls.c: calls of PyTorch's as its exporter writes them, and lines that are none. */
#include "test/unit/torch_file.h"
#include "passes/torch/metadata/metadata.h"

static bool read_call(torch_file *f, const char *line, tc_torch_call *call) {
    torch_file_read(f, (told){.call = line});
    return tc_torch_call_read(f->ctx.arena, f->model->graph->first, call);
}

static void expect_list(const char **got, size_t n, const char *const *want, size_t n_want) {
    assert_int_equal(n, n_want);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(got[i], want[i]);
}

#define EXPECT_LIST(got, n, ...)                                                                                       \
    do {                                                                                                               \
        const char *const want_[] = {__VA_ARGS__};                                                                     \
        expect_list(got, n, want_, sizeof want_ / sizeof *want_);                                                      \
    } while (0)

TEST(arguments) {
    torch_file f;
    tc_torch_call call;
    assert_true(read_call(&f,
                          "%linear_2 : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = "
                          "(%x, %p_w, None, 0.1, [1, [2, %y]], True), kwargs = {})",
                          &call));
    assert_string_equal(call.result, "linear_2");
    assert_string_equal(call.target, "aten.linear.default");
    EXPECT_LIST(call.args, call.n_args, "%x", "%p_w", "None", "0.1", "[1, [2, %y]]", "True");
    assert_int_equal(call.n_keys, 0);
    assert_true(tc_torch_call_is(&call, "aten.linear"));
    assert_true(tc_torch_call_is(&call, "aten.linear.default"));
    assert_false(tc_torch_call_is(&call, "aten.line"));
    assert_false(tc_torch_call_is(&call, "aten.linear.default.more"));
    assert_string_equal(tc_torch_call_argument(&call, 1, "weight"), "%p_w");
    assert_null(tc_torch_call_argument(&call, 6, "bias"));
    assert_null(tc_torch_call_argument(&call, 6, NULL));
    torch_file_close(&f);
}

TEST(keywords) {
    torch_file f;
    tc_torch_call call;
    assert_true(read_call(&f,
                          "%sum_1 : [num_users=2] = call_function[target=torch.ops.aten.sum.dim_IntList](args = (%x,), "
                          "kwargs = {dim: [-1, 2], keepdim: True, dtype: torch.float32, name: 'a, b}', none: })",
                          &call));
    EXPECT_LIST(call.args, call.n_args, "%x");
    assert_int_equal(call.users, 2);
    EXPECT_LIST(call.keys, call.n_keys, "dim", "keepdim", "dtype", "name", "none");
    EXPECT_LIST(call.values, call.n_keys, "[-1, 2]", "True", "torch.float32", "'a, b}'", "");
    assert_string_equal(tc_torch_call_argument(&call, 1, "keepdim"), "True");
    assert_string_equal(tc_torch_call_argument(&call, 0, "dim"), "%x");
    torch_file_close(&f);
}

TEST(odd_calls) {
    torch_file f;
    tc_torch_call call;
    assert_true(read_call(
        &f, "%g : [num_users=0] = call_function[target=operator.getitem](args = (%x, 0), kwargs = {})", &call));
    assert_string_equal(call.target, "operator.getitem");
    torch_file_close(&f);
    assert_true(
        read_call(&f, "%y = call_function[target=torch.ops.aten.zeros.default](args = (), kwargs = {})", &call));
    assert_int_equal(call.n_args, 0);
    assert_int_equal(call.users, 0);
    torch_file_close(&f);
    assert_true(
        read_call(&f, "%y = f[target=a](args = ('a, (b', \"it's], \", {k: (1, 2)}, ((%x,),)), kwargs = {})", &call));
    EXPECT_LIST(call.args, call.n_args, "'a, (b'", "\"it's], \"", "{k: (1, 2)}", "((%x,),)");
    torch_file_close(&f);
    assert_true(read_call(&f, "%y = f[target=a](args = (,, %x,,), kwargs = {no colon, a: 1})", &call));
    EXPECT_LIST(call.args, call.n_args, "%x");
    EXPECT_LIST(call.keys, call.n_keys, "a");
    torch_file_close(&f);
}

TEST(no_calls) {
    static const char *const lines[] = {
        "",
        "y = f[target=a](args = (), kwargs = {})",
        "%",
        "%y",
        "%y = f[target=a",
        "%y = f[target=a]",
        "%y = f[target=a](args = ",
        "%y = f[target=a](args = (",
        "%y = f[target=a](args = (%x",
        "%y = f[target=a](args = (%x)",
        "%y = f[target=a](args = (%x), kwargs = ",
        "%y = f[target=a](args = (%x), kwargs = {",
        "%y = f[target=a](args = (%x), kwargs = {a: 1",
        "%y = f[target=a](args = ([%x), kwargs = {}",
        "%y = f[target=a](args = ('%x), kwargs = {})",
        "%y = f(args = (%x), kwargs = {})[target=a]",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        torch_file f;
        tc_torch_call call;
        assert_false(read_call(&f, lines[i], &call));
        torch_file_close(&f);
    }
    torch_file f;
    tc_torch_call call;
    assert_false(read_call(&f, NULL, &call));
    torch_file_close(&f);
}

TEST(names) {
    torch_file f;
    tc_torch_call call;
    size_t n;
    assert_true(
        read_call(&f, "%y = f[target=a](args = ([%x_1, %x_1], 2, (%z,), %), kwargs = {k: %_w, l: None})", &call));
    const char **names = tc_torch_call_names(f.ctx.arena, &call, &n);
    EXPECT_LIST(names, n, "x_1", "x_1", "z", "_w");
    torch_file_close(&f);
    assert_true(read_call(&f, "%y = f[target=a](args = (1, 'x'), kwargs = {k: True})", &call));
    tc_torch_call_names(f.ctx.arena, &call, &n);
    assert_int_equal(n, 0);
    torch_file_close(&f);
}

TEST(stems) {
    assert_true(tc_torch_same_stem("slice", "slice_12"));
    assert_true(tc_torch_same_stem("slice_1", "slice_12"));
    assert_true(tc_torch_same_stem("conv2d_1", "conv2d"));
    assert_true(tc_torch_same_stem("", ""));
    assert_false(tc_torch_same_stem("slice", "slice_scatter"));
    assert_false(tc_torch_same_stem("sum_1", "su"));
    assert_false(tc_torch_same_stem("conv1d", "conv2d"));
    assert_false(tc_torch_same_stem("_1", "_2")); /* nothing before the number: no number */
    assert_false(tc_torch_same_stem("12", "13"));
}
