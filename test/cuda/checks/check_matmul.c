/* check_matmul.c: products on the emulated device, by the double of cuBLASLt and by the plain kernel: all types,
 * transposes, leading dims, batches and their places, what is added to, and which of the two ways is taken. */
#include "kernels/matmul/cublas.h"
#include "kernels/matmul/product_cuda.h"
#include "cuda_case.h"
#include "test/cuda/emulation/emulation_host.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tk_dtype types[] = {TK_F32, TK_F64, TK_F16, TK_BF16, TK_I32, TK_U32, TK_I64, TK_U64, 0};

/* Operands are of -2 to 2: a sum of k products has an error of a few places of their sum. Of 16 bits each side is
 * rounded once, which near the middle of two numbers is a place. */
static bounds of(tk_dtype dtype, bool wide, int64_t k) {
    double terms = (double)(k + 8);
    return !tk_is_float(dtype)          ? (bounds){0}
           : tk_is_half(dtype) && !wide ? (bounds){.ulps = 1, .absolute = 2e-7 * terms}
           : dtype == TK_F64            ? (bounds){.absolute = 4e-16 * terms}
                                        : (bounds){.absolute = 3e-7 * terms};
}

/* --- a batch with its operands ------------------------------------------------------------------ */

typedef struct batch {
    tk_product p;
    tk_dtype dtype;
    pair a, b, out;
} batch;

static int64_t extent(int64_t lines, int64_t width, int64_t ld) { return lines > 0 ? (lines - 1) * ld + width : 0; }

/* Leading dims are wider by the pads; operands begin `first` elements behind an aligned place. Steps of 0: one matrix
 * for all items. */
static batch make(tk_dtype dtype, const int64_t *shape, int trans, int64_t pad, int64_t first, bool one_a, bool one_b) {
    batch t = {.p = {.batch = shape[0], .m = shape[1], .n = shape[2], .k = shape[3], .alpha = 1}, .dtype = dtype};
    tk_product *p = &t.p;
    p->trans_a = trans & 1, p->trans_b = trans & 2;
    int64_t lines_a = p->trans_a ? p->k : p->m, width_a = p->trans_a ? p->m : p->k, lines_b = p->trans_b ? p->n : p->k,
            width_b = p->trans_b ? p->k : p->n;
    p->lda = width_a + pad, p->ldb = width_b + 2 * pad;
    int64_t size_a = extent(lines_a, width_a, p->lda), size_b = extent(lines_b, width_b, p->ldb);
    p->a_at.step = one_a ? 0 : size_a, p->b_at.step = one_b ? 0 : size_b;
    t.a = pair_from(pair_random(dtype, first + (one_a ? 1 : p->batch) * size_a, -2, 2), first);
    t.b = pair_from(pair_random(dtype, first + (one_b ? 1 : p->batch) * size_b, -2, 2), first);
    return t;
}

/* What the product is added to; where beta is 0, nothing that is a number. */
static void add_out(batch *t, double beta, int64_t first) {
    int64_t n = t->p.batch * t->p.m * t->p.n;
    tk_dtype dtype = t->p.wide ? TK_F32 : t->dtype;
    t->p.beta = beta;
    t->out = pair_from(beta == 0 ? pair_result(dtype, first + n) : pair_random(dtype, first + n, -2, 2), first);
    double nan = NAN;
    if (beta == 0 && tk_is_float(dtype) && n > 0) {
        pair one = pair_numbers(dtype, 1, &nan);
        memcpy(t->out.at[HOST], one.at[HOST], tk_size(dtype));
    }
}

static size_t workspace_of(const tk_product *p, tk_dtype dtype) { return OF_TABLE(product_workspace)(p, dtype, 1); }

static void run(batch t, const char *what) {
    ON_BOTH(product_run, AT(t.out), AT(t.a), AT(t.b), &t.p, t.dtype, workspace(workspace_of(&t.p, t.dtype)));
    pair_compare(t.out, of(t.dtype, t.p.wide, t.p.k), "%s: %lld of %lld x %lld x %lld, transposed %d %d, beta %g", what,
                 (long long)t.p.batch, (long long)t.p.m, (long long)t.p.n, (long long)t.p.k, t.p.trans_a, t.p.trans_b,
                 t.p.beta);
}

static const int64_t shapes[][4] = {
    /* batch, m, n, k */
    {1, 1, 1, 1}, {1, 3, 5, 7}, {3, 2, 5, 1}, {1, 33, 31, 17}, {2, 65, 1, 40}, {2, 1, 34, 33}, {1, 32, 64, 16},
};

static void shapes_and_transposes(void) {
    for (const tk_dtype *t = types; *t; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int trans = 0; trans < 4; trans++) {
                batch made = make(*t, shapes[s], trans, (int64_t)s % 3, 0, false, false);
                add_out(&made, (double)((s + (size_t)trans) % 2), 0);
                run(made, "a product");
            }
}

/* Results in floats, alpha and beta that are neither 0 nor 1, bases at odd places, items that share a matrix. */
static void forms(void) {
    static const int64_t shape[] = {3, 5, 9, 20};
    for (const tk_dtype *t = types; *t; t++)
        for (int form = 0; form < 16; form++) {
            batch made = make(*t, shape, form % 4, 1, form & 4 ? 1 : 0, form & 8, (form & 8) == 0 && (form & 1));
            made.p.wide = tk_is_half(*t) && (form & 2);
            made.p.alpha = tk_is_float(*t) ? 0.5 : 1;
            add_out(&made, !tk_is_float(*t) ? 1 : -0.75, form & 4 ? 3 : 0);
            run(made, "a form");
        }
}

/* Each operand in turn at an odd place: the library is told so. */
static void odd_places(void) {
    static const int64_t shape[] = {1, 8, 16, 16};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int odd = 0; odd < 3; odd++) {
            batch made = make(*t, shape, 0, 0, 0, false, false);
            if (odd == 0)
                made.a = pair_from(pair_random(*t, 8 * 16 + 1, -2, 2), 1);
            if (odd == 1)
                made.b = pair_from(pair_random(*t, 16 * 16 + 1, -2, 2), 1);
            add_out(&made, 1, odd == 2);
            run(made, "one at an odd place");
        }
}

static void uneven(void) {
    static const int64_t shape[] = {4, 6, 7, 18}, at[] = {2, 0, 1, 0};
    for (const tk_dtype *t = types; *t; t++) {
        batch made = make(*t, shape, 2, 0, 0, false, false);
        int64_t a_at[4], b_at[4];
        for (int i = 0; i < 4; i++)
            a_at[i] = at[i] * made.p.a_at.step, b_at[i] = at[3 - i] * made.p.b_at.step;
        pair a_table = pair_of(TK_I64, 4, a_at), b_table = pair_of(TK_I64, 4, b_at);
        add_out(&made, 0, 0);
        tk_product p = made.p;
        for (side = HOST; side < SIDES; side++) {
            p.a_at.at = AT(a_table), p.b_at.at = AT(b_table);
            tables[side]->product_run(queues[side], AT(made.out), AT(made.a), AT(made.b), &p, *t,
                                      workspace(workspace_of(&p, *t)));
        }
        wait_for_both();
        pair_compare(made.out, of(*t, false, p.k), "places of a table");
    }
}

static void empty(void) {
    static const int64_t sums[] = {2, 3, 5, 0}, none[][4] = {{0, 3, 5, 2}, {2, 0, 5, 2}, {2, 3, 0, 2}};
    for (const tk_dtype *t = types; *t; t++) {
        for (int beta = 0; beta < 2; beta++) {
            batch made = make(*t, sums, 0, 0, 0, false, false);
            add_out(&made, beta, 0);
            run(made, "sums of nothing");
        }
        for (int i = 0; i < 3; i++) {
            batch made = make(*t, none[i], 0, 0, 0, false, false);
            pair out = pair_random(*t, 8, -2, 2); /* stays */
            ON_BOTH(product_run, AT(out), AT(made.a), AT(made.b), &made.p, *t, NULL);
            pair_compare(out, (bounds){0}, "no results");
        }
    }
}

/* A matrix of one line may have any leading dim, also 0; lines that lie over each other are for the plain kernel. */
static void leading_dims(void) {
    static const int64_t one_line[] = {1, 1, 6, 9}, lines[] = {1, 4, 6, 9};
    batch made = make(TK_F32, one_line, 0, 0, 0, false, false);
    made.p.lda = 0;
    add_out(&made, 0, 0);
    run(made, "one line");
    made = make(TK_F32, lines, 0, 0, 0, false, false);
    made.p.lda = 1;
    add_out(&made, 0, 0);
    run(made, "lines over each other");
}

/* More items than a call takes. */
static void many_items(void) {
    static const int64_t shape[] = {32770, 1, 1, 1};
    batch made = make(TK_F16, shape, 0, 0, 0, false, false);
    add_out(&made, 1, 0);
    run(made, "many items");
}

/* --- which way ---------------------------------------------------------------------------------- */

static const char *described(void) {
    static char text[1 << 16];
    tk_cublas_describe(tk_queue_cuda(queues[DEVICE])->cublas, text, sizeof text);
    return text;
}

static int lines_with(const char *text, const char *word) {
    int n = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *found = strstr(line, word), *end = strchr(line, '\n');
        n += found && found < end;
    }
    return n;
}

/* Floats at even steps go to the library, which is asked once a problem; integers and uneven places do not. */
static void ways(void) {
    static const int64_t shape[] = {2, 11, 13, 29};
    for (const tk_dtype *t = types; *t; t++) {
        int before = lines_with(described(), "11 x 13 x 29"), expected = emu_order == 0 && tk_is_float(*t) ? 1 : 0;
        for (int i = 0; i < 2; i++) {
            batch made = make(*t, shape, 0, 0, 0, false, false);
            add_out(&made, i, 0);
            run(made, "asked once");
        }
        if (lines_with(described(), "11 x 13 x 29") != before + expected)
            wrong("type %d: %d problems more, not %d:\n%s", (int)*t, lines_with(described(), "11 x 13 x 29") - before,
                  expected, described());
    }
    if (emu_order == 0 && lines_with(described(), "no algorithm") > 0)
        wrong("the library is given products that it has nothing for:\n%s", described());
    if (strstr(described(), "2 of float16, 11 x 13 x 29: algorithm 1, tile 0, 1 splits,") == NULL)
        wrong("the algorithms are said as\n%s", described());
}

/* By the library, and where it does not add one: doubles, an odd place, no algorithm, sums of nothing. */
static void biases(void) {
    static const int64_t shapes_of[][4] = {{1, 7, 24, 19}, {2, 5, 9, 8}, {1, 6, 1, 4}, {1, 4, 8, 0}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t s = 0; s < sizeof shapes_of / sizeof *shapes_of; s++)
            for (int form = 0; form < 4; form++) {
                batch made = make(*t, shapes_of[s], form, 0, 0, false, false);
                made.p.wide = tk_is_half(*t) && form == 2;
                made.p.alpha = form == 3 ? 0.5 : 1;
                add_out(&made, 0, 0);
                pair bias = pair_random(made.p.wide ? TK_F32 : *t, made.p.n + 1, -2, 2);
                if (form == 1)
                    bias = pair_from(bias, 1);
                if (form == 2)
                    setenv("EMU_CUBLASLT", "none", 1);
                for (side = HOST; side < SIDES; side++) {
                    made.p.bias = AT(bias);
                    tables[side]->product_run(queues[side], AT(made.out), AT(made.a), AT(made.b), &made.p, *t, NULL);
                }
                wait_for_both();
                unsetenv("EMU_CUBLASLT");
                pair_compare(made.out, of(*t, made.p.wide, made.p.k), "with a bias: %zu, form %d", s, form);
            }
    if (!strstr(described(), "1 of float16, 7 x 24 x 19, with a bias: algorithm 1") ||
        strstr(described(), "7 x 24 x 19, A transposed, with a bias")) /* at an odd place */
        wrong("the library is given other biases than it takes:\n%s", described());
}

/* What is added lies somewhere else, or where the result goes: by the library, at an odd place, by the plain kernel. */
static void added(void) {
    static const int64_t shapes_of[][4] = {{1, 7, 24, 19}, {1, 33, 5, 40}, {1, 4, 8, 0}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t s = 0; s < sizeof shapes_of / sizeof *shapes_of; s++)
            for (int form = 0; form < 4; form++) {
                batch made = make(*t, shapes_of[s], form, 0, 0, false, false);
                const int64_t n = made.p.m * made.p.n;
                pair add = pair_from(pair_random(*t, n + 1, -2, 2), form == 1);
                made.p.beta = form == 3 ? -0.5 : 1;
                made.out = form == 2 ? pair_copy(add) : pair_result(*t, n);
                memcpy(made.out.at[HOST], add.at[HOST], (size_t)n * tk_size(*t));
                if (form == 3)
                    setenv("EMU_CUBLASLT", "none", 1);
                for (side = HOST; side < SIDES; side++) { /* the reference adds to what is there */
                    made.p.add = side == HOST ? NULL : form == 2 ? AT(made.out) : AT(add);
                    tables[side]->product_run(queues[side], AT(made.out), AT(made.a), AT(made.b), &made.p, *t, NULL);
                }
                wait_for_both();
                unsetenv("EMU_CUBLASLT");
                pair_compare(made.out, of(*t, false, made.p.k), "added to another: %zu, form %d", s, form);
            }
}

/* Sums of the operand that lies by lines of k, beside the reduction that they are. */
static void summed(void) {
    static const int64_t shapes_of[][4] = {{1, 8, 24, 19}, {1, 24, 8, 130}, {1, 5, 3, 7}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t s = 0; s < sizeof shapes_of / sizeof *shapes_of; s++)
            for (int form = 0; form < 6; form++) {
                const bool of_a = form % 2;
                batch made = make(*t, shapes_of[s], of_a ? 1 : 0, 0, 0, false, false);
                const int64_t n = of_a ? made.p.m : made.p.n, dims[] = {made.p.k, n};
                pair sums = pair_from(pair_result(*t, n + (form / 2 == 1)), form / 2 == 1),
                     of_lines = of_a ? made.a : made.b;
                tk_reduction r;
                tk_reduction_init(&r, 2, dims, (const bool[]){true, false});
                add_out(&made, 0, 0);
                if (form / 2 == 2)
                    setenv("EMU_CUBLASLT", "none", 1);
                tables[HOST]->reduce(queues[HOST], sums.at[HOST], of_lines.at[HOST], &r, TK_REDUCE_SUM, *t,
                                     workspace(tables[HOST]->reduce_workspace(&r)));
                for (side = HOST; side < SIDES; side++) {
                    made.p.sums_of = side == HOST ? TK_SUMS_NONE : of_a ? TK_SUMS_OF_A : TK_SUMS_OF_B;
                    made.p.sums = AT(sums);
                    tables[side]->product_run(queues[side], AT(made.out), AT(made.a), AT(made.b), &made.p, *t,
                                              workspace(workspace_of(&made.p, *t)));
                }
                wait_for_both();
                unsetenv("EMU_CUBLASLT");
                pair_compare(made.out, of(*t, false, made.p.k), "a product with sums: %zu, form %d", s, form);
                pair_compare(sums, of(*t, false, made.p.k), "sums: %zu, form %d", s, form);
            }
    if (!strstr(described(), "8 x 24 x 19, with sums of B: algorithm 1") ||
        !strstr(described(), "24 x 8 x 130, A transposed, with sums of A: algorithm 1"))
        wrong("the library is given other sums than it takes:\n%s", described());
}

/* Where it has no algorithm the plain kernel is as good, and the answer is remembered. */
static void no_algorithm(void) {
    static const int64_t shape[] = {2, 12, 14, 28};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (int i = 0; i < 2; i++) {
            batch made = make(*t, shape, 1, 0, 0, false, false);
            add_out(&made, i, 0);
            setenv("EMU_CUBLASLT", "none", 1);
            run(made, "the library has no algorithm");
            unsetenv("EMU_CUBLASLT");
        }
    if (lines_with(described(), "12 x 14 x 28, A transposed: no algorithm") != 4)
        wrong("the problems without an algorithm are\n%s", described());
}

/* Rounded operands are asked for, never taken. */
static void tf32(void) {
    static const int64_t shape[] = {1, 8, 8, 24};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    for (int on = 1; on >= 0; on--) {
        batch made = make(TK_F32, shape, 0, 0, 0, false, false);
        add_out(&made, 0, 0);
        cuda->tf32 = on;
        ON_BOTH(product_run, AT(made.out), AT(made.a), AT(made.b), &made.p, TK_F32, NULL);
        pair_compare(made.out, (bounds){.absolute = on ? 24 * 4e-3 : 24 * 3e-7}, "TF32 %d", on);
    }
    if (lines_with(described(), "8 x 8 x 24, TF32: algorithm") != 1 || lines_with(described(), "8 x 8 x 24: algo") != 1)
        wrong("TF32 is not a problem of its own:\n%s", described());
}

/* A recording asks nothing: a problem that it brings up is an error, one that is known is not. */
static void recorded(void) {
    static const int64_t old[] = {1, 9, 10, 21}, new[] = {1, 10, 9, 21};
    tk_cuda *cuda = tk_queue_cuda(queues[DEVICE]);
    batch known = make(TK_F32, old, 0, 0, 0, false, false), unknown = make(TK_F32, new, 0, 0, 0, false, false);
    add_out(&known, 0, 0), add_out(&unknown, 0, 0);
    run(known, "before a recording");
    for (int i = 0; i < 2; i++) {
        batch *t = i == 0 ? &known : &unknown;
        cuda->recording = true;
        tables[DEVICE]->product_run(queues[DEVICE], t->out.at[DEVICE], t->a.at[DEVICE], t->b.at[DEVICE], &t->p, TK_F32,
                                    NULL);
        cuda->recording = false;
        if (cuda->error != (i == 0 ? cudaSuccess : cudaErrorStreamCaptureUnsupported))
            wrong("recording product %d gives %s", i, cudaGetErrorString(cuda->error));
        cuda->error = cudaSuccess;
        if (emu_order != 0)
            break; /* the second one is known by now */
    }
}

/* --- the plain kernel and what is added to -------------------------------------------------------- */

static void plain(void) {
    static const int64_t odd[][4] = {{1, 33, 65, 31}, {2, 31, 3, 17}, {1, 64, 32, 32}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t s = 0; s < sizeof odd / sizeof *odd; s++)
            for (int trans = 0; trans < 4; trans++) {
                batch made = make(*t, odd[s], trans, trans == 2, 1, false, false);
                made.p.wide = tk_is_half(*t) && trans == 3;
                add_out(&made, trans % 2, 0);
                tables[HOST]->product_run(queues[HOST], made.out.at[HOST], made.a.at[HOST], made.b.at[HOST], &made.p,
                                          *t, NULL);
                tk_cuda_product_plain(queues[DEVICE], made.out.at[DEVICE], made.a.at[DEVICE], made.b.at[DEVICE],
                                      &made.p, *t);
                wait_for_both();
                pair_compare(made.out, of(*t, made.p.wide, made.p.k), "plain %zu, transposed %d", s, trans);
            }
}

static void start(void) {
    static const int64_t dims[][3] = {{1, 5, 24}, {3, 7, 9}, {2, 3, 16}, {2, 4, 6}, {1, 1, 1}, {0, 3, 4}};
    for (const tk_dtype *t = all_floats; *t; t++)
        for (size_t s = 0; s < sizeof dims / sizeof *dims; s++)
            for (int kind = 0; kind < 8; kind++) { /* which dims the operand has */
                int64_t of_c[3], n = 1;
                for (int d = 0; d < 3; d++)
                    n *= of_c[d] = kind >> d & 1 ? dims[s][d] : 1;
                tk_bcast bc;
                tk_bcast_init(&bc, (tk_shape){3, dims[s]}, (tk_shape[]){{3, of_c}}, 1);
                pair c = pair_random(*t, n, -2, 2), out = pair_result(*t, bc.count + 1);
                out = pair_from(out, kind == 5 ? 1 : 0);
                out.n = bc.count;
                ON_BOTH(product_start, AT(out), AT(c), tk_is_half(*t) ? 1 : 1.5, &bc, *t);
                pair_compare(out, (bounds){0}, "started, dims %zu, kind %d", s, kind);
            }
}

const cuda_check checks[] = {{"shapes_and_transposes", shapes_and_transposes},
                             {"forms", forms},
                             {"odd_places", odd_places},
                             {"uneven", uneven},
                             {"empty", empty},
                             {"leading_dims", leading_dims},
                             {"many_items", many_items},
                             {"ways", ways},
                             {"biases", biases},
                             {"added", added},
                             {"summed", summed},
                             {"no_algorithm", no_algorithm},
                             {"tf32", tf32},
                             {"recorded", recorded},
                             {"plain", plain},
                             {"start", start},
                             {NULL, NULL}};
