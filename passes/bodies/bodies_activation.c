/* bodies_activation.c: the function bodies of ActivationMasked and ActivationFromOutputGrad, by the table that
 * kernels/activation/fit_curves.c makes and explains. `_gelu`, `_gelu_tanh`, `_mish`, `_swish`: the function; `_d`:
 * for doubles, which have other polynomials in the table. 16-bit elements are computed in float. Swish of alpha is
 * Swish of 1 at alpha x, divided by alpha. */
#include "activation_curves.h"
#include "bodies.h"
#include <string.h>

/* Names as in the table, and where each table is. */
static const char *const curve_names[] = {
#define CURVE_NAME(name) #name,
    CURVES(CURVE_NAME)
#undef CURVE_NAME
};

static const struct {
    const char *function, *approximate, *curve;
} functions[] = {
    {"Gelu", "none", "gelu"},
    {"Gelu", "tanh", "gelu_tanh"},
    {"Mish", NULL, "mish"},
    {"Swish", NULL, "swish"},
};

/* A curve of the table, for any type. */
typedef struct curve {
    const char *name;
    bool wide, has_alpha;
    const double *x, *y, *near, *begin, *middle, *scale, *terms; /* terms: [n_terms][pieces] */
    double tail, least, most;
    int n_terms, pieces;
} curve;

#define CURVE_OF(suffix, i)                                                                                            \
    (curve) {                                                                                                          \
        .x = curves_##suffix[i].x, .y = curves_##suffix[i].y, .near = curves_##suffix[i].near,                         \
        .begin = curves_##suffix[i].begin, .middle = curves_##suffix[i].middle, .scale = curves_##suffix[i].scale,     \
        .terms = curves_##suffix[i].terms[0], .tail = curves_##suffix[i].tail, .least = curves_##suffix[i].least,      \
        .most = curves_##suffix[i].most, .n_terms = CURVE_TERMS_##suffix, .pieces = CURVE_PIECES                       \
    }

/* False: the table has no such function. */
static bool find_curve(const tc_node *node, curve *out) {
    const char *function = tc_attr_string(node, "function", ""), *variant = tc_attr_string(node, "approximate", "none");
    const bool wide = tc_value_dtype(tc_input(node, 0)) == TC_DOUBLE;
    for (size_t i = 0; i < TC_COUNT(functions); i++) {
        if (strcmp(functions[i].function, function) != 0 ||
            (functions[i].approximate && strcmp(functions[i].approximate, variant) != 0))
            continue;
        for (size_t k = 0; k < TC_COUNT(curve_names); k++) {
            if (strcmp(curve_names[k], functions[i].curve) != 0)
                continue;
            *out = wide ? CURVE_OF(f64, k) : CURVE_OF(f32, k);
            out->name = curve_names[k];
            out->wide = wide;
            out->has_alpha = strcmp(function, "Swish") == 0;
            return true;
        }
    }
    return false;
}

/* --- lines ------------------------------------------------------------------------------------ */

static const char *type_of(const curve *c) { return c->wide ? "double" : "float"; }

static void add_number(tc_body *body, const curve *c, const char *name, double value) {
    tc_body_add(body, "  %s = Constant <value: tensor = %s {%.17g}> ()\n", name, type_of(c), value);
}

/* `name`: the polynomial's terms, or another row of the table with one entry per piece. */
static void add_row(tc_body *body, const curve *c, const char *name, const double *row) {
    tc_body_add(body, "  %s = Constant <value: tensor = %s[%d] {", name, type_of(c), c->pieces);
    for (int i = 0; i < c->pieces; i++)
        tc_body_add(body, "%s%.17g", i > 0 ? ", " : "", row[i]);
    tc_body_add(body, "}> ()\n");
}

static void add_alpha(tc_body *body, const curve *c) {
    if (!c->has_alpha) {
        tc_body_add(body, "  alpha_d = Constant <value: tensor = double {1.0}> ()\n");
    } else { /* an alpha of 0, or close to 0, would leave no minimum */
        tc_body_add(body, "  given = Constant <value_float: float = @alpha> ()\n"
                          "  given_d = Cast <to: int = 11> (given)\n"
                          "  size = Abs (given_d)\n"
                          "  small = Constant <value: tensor = double {1e-37}> ()\n"
                          "  is_small = Less (size, small)\n"
                          "  alpha_d = Where (is_small, small, given_d)\n");
    }
    tc_body_add(body, "  alpha = Cast <to: int = %d> (alpha_d)\n", c->wide ? TC_DOUBLE : TC_FLOAT);
}

/* `name`_whole + `name`_part = minimum / alpha */
static void add_minimum(tc_body *body, const curve *c, const char *name, const double minimum[2]) {
    tc_body_add(body,
                "  %s_d = Constant <value: tensor = double {%.17g}> ()\n"
                "  %s_at = Div (%s_d, alpha_d)\n",
                name, minimum[0], name, name);
    if (c->wide) {
        add_number(body, c, tc_arena_printf(body->arena, "%s_lost", name), minimum[1]);
        tc_body_add(body,
                    "  %s_whole = Identity (%s_at)\n"
                    "  %s_part = Div (%s_lost, alpha)\n",
                    name, name, name, name);
    } else {
        tc_body_add(body,
                    "  %s_whole = Cast <to: int = 1> (%s_at)\n"
                    "  %s_back = Cast <to: int = 11> (%s_whole)\n"
                    "  %s_lost = Sub (%s_at, %s_back)\n"
                    "  %s_part = Cast <to: int = 1> (%s_lost)\n",
                    name, name, name, name, name, name, name, name, name);
    }
}

/* `result` = (`value` - minimum / alpha) alpha */
static void add_distance(tc_body *body, const curve *c, const char *result, const char *value,
                         const double minimum[2]) {
    add_minimum(body, c, result, minimum);
    tc_body_add(body,
                "  %s_near = Sub (%s, %s_whole)\n"
                "  %s_off = Sub (%s_near, %s_part)\n"
                "  %s = Mul (%s_off, alpha)\n",
                result, value, result, result, result, result, result, result);
}

static bool begin(tc_body *body, curve *c, const char *inputs, const char *outputs) {
    if (tc_value_dtype(tc_input(body->node, 0)) == TC_UNDEFINED || !find_curve(body->node, c))
        return false;
    tc_body_suffix(body, "_%s%s", c->name, c->wide ? "_d" : "");
    tc_body_begin(body, "alpha: float = 1.0, approximate: string = \"none\", function: string = \"\"", inputs, outputs);
    return true;
}

/* --- Y and the bits --------------------------------------------------------------------------- */

static void add_function(tc_body *body, const curve *c) {
    if (c->has_alpha)
        tc_body_add(body, "  given_t = CastLike (given, x)\n"
                          "  scaled = Mul (x, given_t)\n"
                          "  gate = Sigmoid (scaled)\n"
                          "  rough = Mul (x, gate)\n");
    else if (strcmp(c->name, "mish") == 0)
        tc_body_add(body, "  rough = Mish (x)\n");
    else if (strcmp(c->name, "gelu") == 0)
        tc_body_add(body, "  rough = Gelu (x)\n");
    else /* x sigmoid(2u) = x (1 + tanh u) / 2; sigmoid has the more exact left tail */
        tc_body_add(body, "  cubic_d = Constant <value: tensor = double {0.07135481627260024}> ()\n"
                          "  linear_d = Constant <value: tensor = double {1.5957691216057308}> ()\n"
                          "  cubic = CastLike (cubic_d, x)\n"
                          "  linear = CastLike (linear_d, x)\n"
                          "  x_square = Mul (x, x)\n"
                          "  bend = Mul (x_square, cubic)\n"
                          "  steep = Add (bend, linear)\n"
                          "  twice_u = Mul (x, steep)\n"
                          "  gate = Sigmoid (twice_u)\n"
                          "  rough = Mul (x, gate)\n");
}

/* Near the minimum Y = y* + (off^2 p(off)) / alpha, rounded once. */
static void add_near(tc_body *body, const curve *c) {
    add_number(body, c, "per_near", 1 / CURVE_NEAR);
    add_number(body, c, "one", 1);
    tc_body_add(body, "  s = Mul (off, per_near)\n");
    add_number(body, c, "sum", c->near[c->n_terms - 1]);
    for (int i = c->n_terms - 2; i >= 0; i--) {
        add_number(body, c, tc_arena_printf(body->arena, "near%d", i), c->near[i]);
        tc_body_add(body, "  up%d = Mul (%s, s)\n  sum%d = Add (up%d, near%d)\n", i,
                    i == c->n_terms - 2 ? "sum" : tc_arena_printf(body->arena, "sum%d", i + 1), i, i, i);
    }
    tc_body_add(body, "  square = Mul (off, off)\n"
                      "  risen = Mul (square, sum0)\n"
                      "  rise = Div (risen, alpha)\n"
                      "  above = Add (rise, least_part)\n"
                      "  close = Add (above, least_whole)\n"
                      "  far = Abs (s)\n"
                      "  is_close = LessOrEqual (far, one)\n"
                      "  y = Where (is_close, close, rough)\n"
                      "  Y = CastLike (y, X)\n");
}

bool tc_make_activation_masked(tc_body *body) {
    curve c;
    if (!begin(body, &c, "X", "Y, Right"))
        return false;
    tc_body_add(body, "  x = Cast <to: int = %d> (X)\n", c.wide ? TC_DOUBLE : TC_FLOAT);
    add_alpha(body, &c);
    add_function(body, &c);
    add_distance(body, &c, "off", "x", c.x);
    add_number(body, &c, "none", 0);
    add_minimum(body, &c, "least", c.y);
    add_near(body, &c);
    tc_body_add(body, "  is_right = GreaterOrEqual (off, none)\n");
    tc_body_pack(body, "is_right", "Right");
    tc_body_end(body);
    return true;
}

/* --- the gradient ----------------------------------------------------------------------------- */

/* k, and whether it is in the tail. */
static void add_place(tc_body *body, const curve *c) {
    add_number(body, c, "zero", 0);
    add_number(body, c, "tiny", c->wide ? 2.2250738585072014e-308 : 1.17549435e-38);
    add_number(body, c, "tail", -c->tail);
    add_number(body, c, "least", c->least);
    tc_body_add(body, "  below = Less (above, zero)\n"
                      "  height = Where (below, zero, above)\n"
                      "  t = Sqrt (height)\n"
                      "  minus_t = Neg (t)\n"
                      "  scaled = Mul (y, alpha)\n"
                      "  depth = Neg (scaled)\n"
                      "  is_tiny = Less (depth, tiny)\n"
                      "  held = Where (is_tiny, tiny, depth)\n"
                      "  log = Log (held)\n"
                      "  minus_log = Neg (log)\n"
                      "  u = Sqrt (minus_log)\n"
                      "  minus_u = Neg (u)\n"
                      "  is_left = Not (is_right)\n"
                      "  is_shallow = Less (depth, tail)\n"
                      "  in_tail = And (is_left, is_shallow)\n"
                      "  left = Where (in_tail, minus_u, minus_t)\n"
                      "  side = Where (is_right, t, left)\n"
                      "  too_far = Less (side, least)\n"
                      "  k = Where (too_far, least, side)\n");
}

/* p: the piece that holds k. */
static void add_piece(tc_body *body, const curve *c) {
    for (int i = 1; i < c->pieces; i++) {
        add_number(body, c, tc_arena_printf(body->arena, "begin%d", i), c->begin[i]);
        tc_body_add(body, "  behind%d = GreaterOrEqual (k, begin%d)\n  one%d = Cast <to: int = 6> (behind%d)\n", i, i,
                    i, i);
        if (i == 1)
            tc_body_add(body, "  p1 = Identity (one1)\n");
        else
            tc_body_add(body, "  p%d = Add (p%d, one%d)\n", i, i - 1, i);
    }
    tc_body_add(body, "  p = Identity (p%d)\n", c->pieces - 1);
}

static void add_polynomial(tc_body *body, const curve *c) {
    add_row(body, c, "middles", c->middle);
    add_row(body, c, "scales", c->scale);
    tc_body_add(body, "  middle = Gather (middles, p)\n"
                      "  scale = Gather (scales, p)\n"
                      "  from = Sub (k, middle)\n"
                      "  s = Mul (from, scale)\n");
    for (int i = c->n_terms - 1; i >= 0; i--) {
        add_row(body, c, tc_arena_printf(body->arena, "terms%d", i), c->terms + i * c->pieces);
        if (i == c->n_terms - 1)
            tc_body_add(body, "  sum%d = Gather (terms%d, p)\n", i, i);
        else
            tc_body_add(body, "  term%d = Gather (terms%d, p)\n  up%d = Mul (sum%d, s)\n  sum%d = Add (up%d, term%d)\n",
                        i, i, i, i + 1, i, i, i);
    }
}

bool tc_make_activation_from_output(tc_body *body) {
    curve c;
    if (!begin(body, &c, "dY, Y, Right", "dX"))
        return false;
    tc_body_add(body, "  y = Cast <to: int = %d> (Y)\n  dy = CastLike (dY, y)\n", c.wide ? TC_DOUBLE : TC_FLOAT);
    tc_body_unpack(body, "Right", "Y", "is_right");
    add_alpha(body, &c);
    add_distance(body, &c, "above", "y", c.y);
    add_place(body, &c);
    add_piece(body, &c);
    add_polynomial(body, &c);
    add_number(body, &c, "most", c.most);
    add_number(body, &c, "steepest", 1);
    tc_body_add(body, "  in_tail_slope = Mul (sum0, scaled)\n"
                      "  curved = Where (in_tail, in_tail_slope, sum0)\n"
                      "  is_straight = GreaterOrEqual (k, most)\n"
                      "  slope = Where (is_straight, steepest, curved)\n"
                      "  dx = Mul (dy, slope)\n"
                      "  dX = CastLike (dx, dY)\n");
    tc_body_end(body);
    return true;
}
