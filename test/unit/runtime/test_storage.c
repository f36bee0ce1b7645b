/* test_storage.c: whose bytes each value is. What compiler/memory/storage.c takes for a view is what the runtime's
 * launches run no kernel for; offsets, sources and last reads of small graphs are told by hand. */
#include "test/unit/cases.h"
#include "runtime/session/session.h"
#include "compiler/memory/memory.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include <stdio.h>
#include <string.h>

static tc_model *parse(tc_ctx *ctx, tc_arena *arena, const char *body) {
    tc_model *model = NULL;
    const char *text = tc_arena_printf(arena, "<ir_version: 10, opset_import: [\"\": 21]> g %s", body);
    if (tc_parse_text(ctx, text, strlen(text), "case", &model) != TC_OK || tc_infer_graph(ctx, model->graph) != TC_OK) {
        tc_diags_print(ctx, stderr);
        fail_msg("not a graph: %s", body);
    }
    return model;
}

/* One node `y = ...` of x float[2,3,1] per case: a view or a copy, for both. */
TEST(launches_agree) {
    static const struct {
        const char *type, *node;
        bool view;
    } cases[] = {
        {"float[2,3,1]", "Identity (x)", true},
        {"float[6]", "Reshape (x, flat)", true},
        {"float[2,3]", "Squeeze (x)", true},
        {"float[2,3,1,1]", "Unsqueeze (x, three)", true},
        {"float[2,3]", "Flatten <axis = 1> (x)", true},
        {"float[1,2,3]", "Transpose <perm = [2, 0, 1]> (x)", true},
        {"float[3,2,1]", "Transpose <perm = [1, 0, 2]> (x)", false},
        {"float[1,3,2]", "Transpose (x)", false},
        {"float[2,3,1]", "Cast <to = 1> (x)", true},
        {"double[2,3,1]", "Cast <to = 11> (x)", false},
        {"float[2,3,1]", "CastLike (x, c)", true},
        {"double[2,3,1]", "CastLike (x, d)", false},
        {"float[2,3,1]", "Concat <axis = 0> (x)", true},
        {"float[4,3,1]", "Concat <axis = 0> (x, x)", false},
        {"float[2,3,1]", "Expand (x, same)", true},
        {"float[2,3,2]", "Expand (x, wide)", false},
        {"float[2,3,1]", "Tile (x, ones)", true},
        {"float[2,3,2]", "Tile (x, twice)", false},
        {"float[2,3,1]", "Slice (x, zero, many)", true},
        {"float[2,3,1]", "Slice (x, zero, many, zero, one)", true},
        {"float[2,3,1]", "Slice (x, last, first, zero, back)", false},
        {"float[1,3,1]", "Slice (x, zero, one)", false},
        {"float[2,3,1]", "Dropout (x)", true},
        {"float[2,3,1]", "Dropout (x, half)", true},
        {"float[2,3,1]", "Dropout (x, half, no)", false},
        {"float[2,3,1]", "Neg (x)", false},
    };
    for (size_t i = 0; i < TC_COUNT(cases); i++) {
        tc_ctx ctx;
        tc_ctx_init(&ctx, "test");
        tc_arena *arena = tc_arena_create();
        /* `a` stands between: the graph's input is not of the arena. */
        const char *text = tc_arena_printf(
            arena,
            "(float[2,3,1] w) => (%s z) <int64[1] flat = {-1}, int64[1] three = {3}, float c = {1}, double d = {1},"
            "int64[3] same = {2, 3, 1}, int64[3] wide = {2, 3, 2}, int64[3] ones = {1, 1, 1}, int64[1] zero = {0},"
            "int64[3] twice = {1, 1, 2}, int64[1] many = {9}, int64[1] one = {1}, int64[1] last = {-1},"
            "int64[1] first = {-9}, int64[1] back = {-1}, float half = {0.5}, bool no = {0}> "
            "{ x = Abs (w) y = %s z = Abs (y) }",
            cases[i].type, cases[i].node);
        tempo_session *session;
        assert_int_equal(rt_open_model(parse(&ctx, arena, text), "case", NULL, NULL, &session), TEMPO_OK);
        float data[6] = {0};
        int64_t dims[] = {2, 3, 1};
        tempo_tensor tensor = {TEMPO_FLOAT, 3, dims, data, sizeof data};
        assert_int_equal(tempo_bind(session, "w", &tensor), TEMPO_OK);
        assert_int_equal(tempo_prepare(session), TEMPO_OK);
        const rt_launch *launch = &rt_current_plan(session)->launches[1];
        if (tc_is_view(launch->node) != cases[i].view)
            fail_msg("%s: %s by storage.c", cases[i].node, cases[i].view ? "no view" : "a view");
        if ((launch->view_of == 0) != cases[i].view)
            fail_msg("%s: %s by its launch", cases[i].node, cases[i].view ? "no view" : "a view");
        tempo_close(session);
        tc_arena_destroy(arena);
        tc_ctx_fini(&ctx);
    }
}

typedef struct graph {
    tc_ctx ctx;
    tc_arena *arena;
    tc_model *model;
    tc_storages storages;
} graph;

static void make(graph *g, const char *text) {
    tc_ctx_init(&g->ctx, "test");
    g->arena = tc_arena_create();
    g->model = parse(&g->ctx, g->arena, text);
    tc_storages_make(g->arena, g->model->graph, &g->storages);
}

static void done(graph *g) {
    tc_model_destroy(g->model);
    tc_arena_destroy(g->arena);
    tc_ctx_fini(&g->ctx);
}

/* "h of storage x, source w, given; read until 3". */
static void expect(graph *g, const char *name, const char *storage, const char *source, bool given, uint32_t last) {
    const tc_value *value = tc_graph_find(g->model->graph, name);
    assert_non_null(value);
    const tc_value *of = tc_storage_of(&g->storages, value);
    assert_string_equal(of->name, storage);
    assert_string_equal(tc_source_of(&g->storages, value)->name, source);
    assert_int_equal(tc_storage_is_given(&g->storages, value), given);
    assert_int_equal(tc_value_is_given(value), given); /* both ways to tell */
    assert_ptr_equal(tc_value_storage(value), of);
    assert_ptr_equal(tc_value_source(value), tc_source_of(&g->storages, value));
    assert_int_equal(g->storages.places[of->id].last, last);
}

TEST(storages) {
    graph g;
    make(&g, "(float[2,2] x) => (float[4] out) <float[2,2] w = {1,2,3,4}, int64[1] flat = {-1}> {"
             "wt = Transpose (w) wv = Reshape (wt, flat) xt = Transpose (x) xv = Reshape (x, flat)" /* 0 to 3 */
             "h = Tanh (xt) hv = Reshape (h, flat) s = Shape (h) n = Cast <to = 1> (s)"             /* 4 to 7 */
             "a = Add (hv, wv) b = Add (a, xv) out = Identity (b) }");                              /* 8 to 10 */
    expect(&g, "x", "x", "x", true, 9);
    expect(&g, "xv", "x", "x", true, 9);
    expect(&g, "xt", "xt", "x", false, 4); /* a copy that has to be kept */
    expect(&g, "wt", "wt", "w", true, 8);
    expect(&g, "wv", "wt", "w", true, 8);
    expect(&g, "h", "h", "h", false, 8); /* by way of hv; for its shape it is never read */
    expect(&g, "hv", "h", "h", false, 8);
    expect(&g, "s", "s", "s", false, 7);
    expect(&g, "out", "b", "b", false, 11); /* an output lives to the end */
    done(&g);
}

/* A nested graph reads for the node that holds it, what it gives away as well; its own views show what is outside. */
TEST(nested) {
    graph g;
    make(&g, "(bool p, float[2,2] x) => (float[4] out) <int64[1] flat = {-1}> {"
             "h = Tanh (x) i = Exp (x) out = If (p) <"
             "then_branch = t () => (float[4] a) { a = Reshape (h, flat) },"
             "else_branch = e () => (float[4] c) { b = Reshape (i, flat) c = Neg (b) }> }");
    expect(&g, "h", "h", "h", false, 2);
    expect(&g, "i", "i", "i", false, 2);
    expect(&g, "out", "out", "out", false, 3);
    done(&g);
}
