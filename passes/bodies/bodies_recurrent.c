/* bodies_recurrent.c: the function body of RecurrenceGrad, in standard ops. Products over all steps compute the sums
 * and gates, as in the kernel; a Scan runs backward. The body is assembled from the parts of the node: the cell and
 * its functions, directions, operands and gradients, lengths, layout, 16-bit floats, which are computed in float.
 * `#` in the text is a direction. Shapes: x [steps, batch, inputs]; in a direction y, gates, before [steps, batch,
 * ..], states [batch, hidden].
 * The formulas are those of kernels/rnn/rnn.h and their derivatives; a function's slope is computed from its result. */
#include "bodies.h"
#include "compiler/ir/recurrent.h"
#include <string.h>

typedef struct variant {
    tc_body *body;
    const tc_node *node;
    tc_recurrent layer;
    bool half, lens, bias, peepholes, inside; /* inside: a GRU that multiplies r h, not r (R h) */
    int direction;
} variant;

static const char *const names[] = {"Y",         "X",         "W", "R",  "B",    "sequence_lens",
                                    "initial_h", "initial_c", "P", "dY", "dY_h", "dY_c"};
static const char *const results[] = {"dX", "dW", "dR", "dB", "dinitial_h", "dinitial_c", "dP"};

static bool has(const variant *f, uint32_t operand) { return tc_input(f->node, operand) != NULL; }
static bool is_backward(const variant *f) { return f->layer.backward || f->direction == 1; }

/* Appends text, with the direction for `#`. */
static void add(const variant *f, const char *text) {
    char *line = tc_arena_strdup(f->body->arena, text);
    for (char *at = strchr(line, '#'); at; at = strchr(at, '#'))
        *at = (char)('0' + f->direction);
    tc_body_add(f->body, "%s", line);
}

/* result = function(x); result = slope(y), from the function's result. */
static void add_function(const variant *f, int which, const char *x, const char *result) {
    tc_recurrent_function function = f->layer.functions[f->direction][which];
    add(f, tc_arena_printf(f->body->arena, "    %s = %s (%s)\n", result, tc_recurrent_function_name(function), x));
}

static void add_slope(const variant *f, int which, const char *y, const char *result) {
    static const struct {
        const char *inner, *outer; /* of y and the result, of the result, and y or the result of `inner` */
    } slopes[] = {[TC_RNN_TANH] = {"    %s_part = Mul (%s, %s)\n", "    %s = Sub (one, %s_part)\n"},
                  [TC_RNN_SIGMOID] = {"    %s_part = Sub (one, %s)\n", "    %s = Mul (%s_part, %s)\n"},
                  [TC_RNN_RELU] = {"    %s_part = Greater (%s, zero)\n", "    %s = CastLike (%s_part, %s)\n"}};
    tc_recurrent_function function = f->layer.functions[f->direction][which];
    add(f, tc_arena_printf(f->body->arena, slopes[function].inner, result, y, y));
    add(f, tc_arena_printf(f->body->arena, slopes[function].outer, result, result, y));
}

/* --- operands --------------------------------------------------------------------------------- */

/* `to`: an operand in the type of the computation, with its axes as without batch_first. */
static void add_operand(const variant *f, uint32_t operand, const char *to, const char *perm) {
    bool turned = perm && f->layer.batch_first;
    if (!has(f, operand))
        return;
    const char *wide = turned ? tc_arena_printf(f->body->arena, "%s_given", to) : to;
    tc_body_wide(f->body, f->half, names[operand], wide);
    if (turned)
        tc_body_add(f->body, "  %s = Transpose <perm: ints = %s> (%s)\n", to, perm, wide);
}

static void add_operands(const variant *f) {
    static const char of_states[] = "[1, 0, 2]", of_y[] = "[1, 2, 0, 3]";
    add_operand(f, TC_RNN_Y, "y", of_y);
    add_operand(f, TC_RNN_LAYER + TC_RNN_X, "x", of_states);
    add_operand(f, TC_RNN_LAYER + TC_RNN_W, "w", NULL);
    add_operand(f, TC_RNN_LAYER + TC_RNN_R, "r", NULL);
    add_operand(f, TC_RNN_LAYER + TC_RNN_B, "b", NULL);
    add_operand(f, TC_RNN_LAYER + TC_RNN_H0, "h0", of_states);
    add_operand(f, TC_RNN_LAYER + TC_RNN_C0, "c0", of_states);
    add_operand(f, TC_RNN_LAYER + TC_RNN_P, "p", NULL);
    add_operand(f, TC_RNN_DY, "dy", of_y);
    add_operand(f, TC_RNN_DH, "dyh", of_states);
    add_operand(f, TC_RNN_DC, "dyc", of_states);
    tc_body_add(f->body, "  zero_f = Constant <value_float: float = 0.0> ()\n"
                         "  one_f = Constant <value_float: float = 1.0> ()\n"
                         "  zero = CastLike (zero_f, y)\n"
                         "  one = CastLike (one_f, y)\n"
                         "  first_axis = Constant <value_ints: ints = [0]> ()\n"
                         "  second = Constant <value_ints: ints = [1]> ()\n"
                         "  last = Constant <value_ints: ints = [-1]> ()\n"
                         "  far = Constant <value_ints: ints = [9223372036854775807]> ()\n"
                         "  rows = Flatten <axis: int = 2> (x)\n");
    if (f->lens)
        tc_body_add(f->body, "  steps_list = Shape <start: int = 0, end: int = 1> (y)\n"
                             "  steps = Squeeze (steps_list, first_axis)\n"
                             "  no_step = Constant <value_int: int = 0> ()\n"
                             "  one_step = Constant <value_int: int = 1> ()\n"
                             "  times_list = Range (no_step, steps, one_step)\n"
                             "  of_time = Constant <value_ints: ints = [1, 2]> ()\n"
                             "  of_item = Constant <value_ints: ints = [0, 2]> ()\n"
                             "  times = Unsqueeze (times_list, of_time)\n"
                             "  lens_list = Cast <to: int = 7> (sequence_lens)\n"
                             "  lens = Unsqueeze (lens_list, of_item)\n"
                             "  active = Less (times, lens)\n"
                             "  next_times = Add (times, one_step)\n"
                             "  next_active = Less (next_times, lens)\n");
}

/* A direction's part of a state, or zeros. */
static void add_state(const variant *f, bool given, const char *of, const char *to) {
    add(f,
        tc_arena_printf(f->body->arena, given ? "  %s = Gather <axis: int = 0> (%s, at_#)\n" : "  %s = Identity (%s)\n",
                        to, given ? of : "zeros_#"));
}

/* h before each step: y one step later, and initial_h at the first step of each sequence. */
static void add_before(const variant *f) {
    add(f, "  first_# = Unsqueeze (h0_#, first_axis)\n");
    if (!is_backward(f)) {
        add(f, "  chain_# = Concat <axis: int = 0> (first_#, y_#)\n"
               "  before_# = Slice (chain_#, first_axis, last, first_axis)\n");
        return;
    }
    add(f, "  chain_# = Concat <axis: int = 0> (y_#, first_#)\n"
           "  moved_# = Slice (chain_#, second, far, first_axis)\n");
    add(f, f->lens ? "  before_# = Where (next_active, moved_#, first_#)\n" : "  before_# = Identity (moved_#)\n");
}

static void add_direction(const variant *f) {
    add(f, "  at_# = Constant <value_int: int = #> ()\n"
           "  y_# = Gather <axis: int = 1> (y, at_#)\n"
           "  w_# = Gather <axis: int = 0> (w, at_#)\n"
           "  r_# = Gather <axis: int = 0> (r, at_#)\n"
           "  state_shape_# = Shape <start: int = 1> (y_#)\n"
           "  zeros_# = Expand (zero, state_shape_#)\n"
           "  wt_# = Transpose <perm: ints = [1, 0]> (w_#)\n"
           "  rt_# = Transpose <perm: ints = [1, 0]> (r_#)\n");
    add_state(f, has(f, TC_RNN_LAYER + TC_RNN_H0), "h0", "h0_#");
    add_state(f, has(f, TC_RNN_DH), "dyh", "dh_last_#");
    if (f->layer.cell == TC_LSTM) {
        add_state(f, has(f, TC_RNN_LAYER + TC_RNN_C0), "c0", "c0_#");
        add_state(f, has(f, TC_RNN_DC), "dyc", "dc_last_#");
    }
    add(f, has(f, TC_RNN_DY) ? "  dy_# = Gather <axis: int = 1> (dy, at_#)\n"
                             : "  y_shape_# = Shape (y_#)\n  dy_# = Expand (zero, y_shape_#)\n");
    if (f->bias)
        add(f, "  b_# = Gather <axis: int = 0> (b, at_#)\n"
               "  wb_#, rb_# = Split <axis: int = 0, num_outputs: int = 2> (b_#)\n");
    if (f->peepholes)
        add(f, "  p_# = Gather <axis: int = 0> (p, at_#)\n"
               "  pi_#, po_#, pf_# = Split <axis: int = 0, num_outputs: int = 3> (p_#)\n");
    add_before(f);
}

/* of_x = W x + Wb and of_h = R h + Rb, of all steps; for a GRU that multiplies r h, Rb is in of_x. */
static void add_sums(const variant *f) {
    add(f, f->bias ? "  of_x0_# = MatMul (x, wt_#)\n" : "  of_x_# = MatMul (x, wt_#)\n");
    if (f->bias && f->inside)
        add(f, "  bias_# = Add (wb_#, rb_#)\n  of_x_# = Add (of_x0_#, bias_#)\n");
    else if (f->bias)
        add(f, "  of_x_# = Add (of_x0_#, wb_#)\n");
    if (f->inside)
        add(f, "  r_z_#, r_r_#, r_n_# = Split <axis: int = 0, num_outputs: int = 3> (r_#)\n"
               "  r_zr_# = Concat <axis: int = 0> (r_z_#, r_r_#)\n"
               "  rt_zr_# = Transpose <perm: ints = [1, 0]> (r_zr_#)\n"
               "  rt_n_# = Transpose <perm: ints = [1, 0]> (r_n_#)\n"
               "  of_h_# = MatMul (before_#, rt_zr_#)\n");
    else if (f->bias)
        add(f, "  of_h0_# = MatMul (before_#, rt_#)\n  of_h_# = Add (of_h0_#, rb_#)\n");
    else
        add(f, "  of_h_# = MatMul (before_#, rt_#)\n");
}

/* --- scans ------------------------------------------------------------------------------------ */

/* The begin of a Scan over `n_inputs` values of the steps; `late` first if `against` the direction's order. */
static void begin_scan(const variant *f, bool against, int n_inputs, int n_outputs) {
    n_inputs += f->lens;
    tc_body_add(f->body, "Scan <num_scan_inputs: int = %d", n_inputs);
    for (int side = 0; side < 2 && is_backward(f) != against; side++) {
        tc_body_add(f->body, ", scan_%s_directions: ints = [1", side == 0 ? "input" : "output");
        for (int i = 1; i < (side == 0 ? n_inputs : n_outputs); i++)
            tc_body_add(f->body, ", 1");
        tc_body_add(f->body, "]");
    }
    tc_body_add(f->body, ", body: graph = ");
}

/* result = `made` if the step belongs to its sequence, else `other`. */
static void add_masked(const variant *f, const char *made, const char *other, const char *result) {
    if (f->lens)
        add(f, tc_arena_printf(f->body->arena, "    %s = Where (m_#, %s, %s)\n", result, made, other));
    else
        add(f, tc_arena_printf(f->body->arena, "    %s = Identity (%s)\n", result, made));
}

/* The sum of a gate with its peephole. */
static void add_peephole(const variant *f, const char *gate, const char *c) {
    if (f->peepholes)
        add(f,
            tc_arena_printf(f->body->arena, "    %s_look_# = Mul (%s, p%s_#)\n    %s_all_# = Add (s%s_#, %s_look_#)\n",
                            gate, c, gate, gate, gate, gate));
    else
        add(f, tc_arena_printf(f->body->arena, "    %s_all_# = Identity (s%s_#)\n", gate, gate));
}

static void lstm_gates(const variant *f) {
    add(f, "  sums_# = Add (of_x_#, of_h_#)\n"
           "  c_end_#, i_#, o_#, f_#, g_#, c_before_#, c_# = ");
    begin_scan(f, false, 1, 6);
    add(f, f->lens ? "cells_# (tc_#, ts_#, m_#)" : "cells_# (tc_#, ts_#)");
    add(f, " => (tc_next_#, ti_#, to_#, tf_#, tg_#, tc_before_#, tc_now_#) {\n"
           "    si_#, so_#, sf_#, sg_# = Split <axis: int = -1, num_outputs: int = 4> (ts_#)\n");
    add_peephole(f, "i", "tc_#");
    add_peephole(f, "f", "tc_#");
    add_function(f, 0, "i_all_#", "ti_#");
    add_function(f, 0, "f_all_#", "tf_#");
    add_function(f, 1, "sg_#", "tg_#");
    add(f, "    kept_# = Mul (tf_#, tc_#)\n"
           "    taken_# = Mul (ti_#, tg_#)\n"
           "    tc_now_# = Add (kept_#, taken_#)\n"
           "    tc_before_# = Identity (tc_#)\n");
    add_peephole(f, "o", "tc_now_#");
    add_function(f, 0, "o_all_#", "to_#");
    add_masked(f, "tc_now_#", "tc_#", "tc_next_#");
    add(f, f->lens ? "  }> (c0_#, sums_#, active)\n" : "  }> (c0_#, sums_#)\n");
}

static void lstm_back(const variant *f) {
    add(f, "  dh_end_#, dc_end_#, dg_# = ");
    begin_scan(f, true, 7, 1);
    add(f, f->lens ? "back_# (dh_#, dc_#, ty_#, i1_#, o1_#, f1_#, g1_#, cb_#, cn_#, m_#)"
                   : "back_# (dh_#, dc_#, ty_#, i1_#, o1_#, f1_#, g1_#, cb_#, cn_#)");
    add(f, " => (dh_next_#, dc_next_#, tdg_#) {\n    dh_all_# = Add (dh_#, ty_#)\n");
    add_function(f, 2, "cn_#", "hc_#");
    add_slope(f, 2, "hc_#", "sh_#");
    add_slope(f, 0, "i1_#", "si_#");
    add_slope(f, 0, "o1_#", "so_#");
    add_slope(f, 0, "f1_#", "sf_#");
    add_slope(f, 1, "g1_#", "sg_#");
    add(f, "    of_o_# = Mul (dh_all_#, hc_#)\n"
           "    do_# = Mul (of_o_#, so_#)\n"
           "    of_hc_# = Mul (dh_all_#, o1_#)\n"
           "    by_h_# = Mul (of_hc_#, sh_#)\n"
           "    by_state_# = Add (dc_#, by_h_#)\n");
    add(f, f->peepholes ? "    by_o_# = Mul (do_#, po_#)\n    dc_all_# = Add (by_state_#, by_o_#)\n"
                        : "    dc_all_# = Identity (by_state_#)\n");
    add(f, "    of_i_# = Mul (dc_all_#, g1_#)\n"
           "    di_# = Mul (of_i_#, si_#)\n"
           "    of_f_# = Mul (dc_all_#, cb_#)\n"
           "    df_# = Mul (of_f_#, sf_#)\n"
           "    of_g_# = Mul (dc_all_#, i1_#)\n"
           "    dgate_# = Mul (of_g_#, sg_#)\n"
           "    made_# = Concat <axis: int = -1> (di_#, do_#, df_#, dgate_#)\n"
           "    dh_made_# = MatMul (made_#, r_#)\n"
           "    by_f_# = Mul (dc_all_#, f1_#)\n");
    add(f, f->peepholes ? "    look_i_# = Mul (di_#, pi_#)\n"
                          "    look_f_# = Mul (df_#, pf_#)\n"
                          "    by_fi_# = Add (by_f_#, look_i_#)\n"
                          "    dc_made_# = Add (by_fi_#, look_f_#)\n"
                        : "    dc_made_# = Identity (by_f_#)\n");
    add_masked(f, "made_#", "zero", "tdg_#");
    add_masked(f, "dh_made_#", "dh_#", "dh_next_#");
    add_masked(f, "dc_made_#", "dc_#", "dc_next_#");
    add(f, f->lens ? "  }> (dh_last_#, dc_last_#, dy_#, i_#, o_#, f_#, g_#, c_before_#, c_#, active)\n"
                   : "  }> (dh_last_#, dc_last_#, dy_#, i_#, o_#, f_#, g_#, c_before_#, c_#)\n");
    add(f, "  dgh_# = Identity (dg_#)\n");
}

static void gru_gates(const variant *f) {
    add(f, "  xz_#, xr_#, xn_# = Split <axis: int = -1, num_outputs: int = 3> (of_x_#)\n");
    add(f, f->inside ? "  hz_#, hr_# = Split <axis: int = -1, num_outputs: int = 2> (of_h_#)\n"
                     : "  hz_#, hr_#, hn_# = Split <axis: int = -1, num_outputs: int = 3> (of_h_#)\n");
    add(f, "  sz_# = Add (xz_#, hz_#)\n  sr_# = Add (xr_#, hr_#)\n");
    add_function(f, 0, "sz_#", "z_#");
    add_function(f, 0, "sr_#", "reset_#");
    add(f, f->inside
               ? "  rh_# = Mul (reset_#, before_#)\n  part_# = MatMul (rh_#, rt_n_#)\n  hn_# = Identity (part_#)\n"
               : "  part_# = Mul (reset_#, hn_#)\n");
    add(f, "  sn_# = Add (xn_#, part_#)\n");
    add_function(f, 1, "sn_#", "n_#");
}

static void gru_back(const variant *f) {
    add(f, "  dh_end_#, dg_#, dgh_# = ");
    begin_scan(f, true, 6, 2);
    add(f, f->lens ? "back_# (dh_#, ty_#, z1_#, r1_#, n1_#, hn1_#, hb_#, m_#)"
                   : "back_# (dh_#, ty_#, z1_#, r1_#, n1_#, hn1_#, hb_#)");
    add(f, " => (dh_next_#, tdg_#, tdgh_#) {\n    dh_all_# = Add (dh_#, ty_#)\n");
    add_slope(f, 0, "z1_#", "slope_z_#");
    add_slope(f, 0, "r1_#", "slope_r_#");
    add_slope(f, 1, "n1_#", "slope_n_#");
    add(f, "    change_# = Sub (hb_#, n1_#)\n"
           "    of_z_# = Mul (dh_all_#, change_#)\n"
           "    dz_# = Mul (of_z_#, slope_z_#)\n"
           "    rest_# = Sub (one, z1_#)\n"
           "    of_n_# = Mul (dh_all_#, rest_#)\n"
           "    dn_# = Mul (of_n_#, slope_n_#)\n"
           "    kept_# = Mul (dh_all_#, z1_#)\n");
    if (f->inside)
        add(f, "    drh_# = MatMul (dn_#, r_n_#)\n"
               "    of_r_# = Mul (drh_#, hb_#)\n"
               "    dreset_# = Mul (of_r_#, slope_r_#)\n"
               "    by_r_# = Mul (drh_#, r1_#)\n"
               "    dzr_# = Concat <axis: int = -1> (dz_#, dreset_#)\n"
               "    by_zr_# = MatMul (dzr_#, r_zr_#)\n"
               "    through_# = Add (by_r_#, by_zr_#)\n"
               "    made_h_# = Concat <axis: int = -1> (dz_#, dreset_#, dn_#)\n");
    else
        add(f, "    of_r_# = Mul (dn_#, hn1_#)\n"
               "    dreset_# = Mul (of_r_#, slope_r_#)\n"
               "    dhn_# = Mul (dn_#, r1_#)\n"
               "    made_h_# = Concat <axis: int = -1> (dz_#, dreset_#, dhn_#)\n"
               "    through_# = MatMul (made_h_#, r_#)\n");
    add(f, "    made_# = Concat <axis: int = -1> (dz_#, dreset_#, dn_#)\n"
           "    dh_made_# = Add (kept_#, through_#)\n");
    add_masked(f, "made_#", "zero", "tdg_#");
    add_masked(f, "made_h_#", "zero", "tdgh_#");
    add_masked(f, "dh_made_#", "dh_#", "dh_next_#");
    add(f, f->lens ? "  }> (dh_last_#, dy_#, z_#, reset_#, n_#, hn_#, before_#, active)\n"
                   : "  }> (dh_last_#, dy_#, z_#, reset_#, n_#, hn_#, before_#)\n");
}

static void plain_back(const variant *f) {
    add(f, "  sums_# = Add (of_x_#, of_h_#)\n");
    add_function(f, 0, "sums_#", "h_#");
    add(f, "  dh_end_#, dg_# = ");
    begin_scan(f, true, 2, 1);
    add(f, f->lens ? "back_# (dh_#, ty_#, h1_#, m_#)" : "back_# (dh_#, ty_#, h1_#)");
    add(f, " => (dh_next_#, tdg_#) {\n    dh_all_# = Add (dh_#, ty_#)\n");
    add_slope(f, 0, "h1_#", "slope_#");
    add(f, "    made_# = Mul (dh_all_#, slope_#)\n    dh_made_# = MatMul (made_#, r_#)\n");
    add_masked(f, "made_#", "zero", "tdg_#");
    add_masked(f, "dh_made_#", "dh_#", "dh_next_#");
    add(f, f->lens ? "  }> (dh_last_#, dy_#, h_#, active)\n" : "  }> (dh_last_#, dy_#, h_#)\n");
    add(f, "  dgh_# = Identity (dg_#)\n");
}

/* --- results ---------------------------------------------------------------------------------- */

static void add_weight_gradients(const variant *f) {
    add(f, "  dx_# = MatMul (dg_#, w_#)\n"
           "  dg_rows_# = Flatten <axis: int = 2> (dg_#)\n"
           "  dgh_rows_# = Flatten <axis: int = 2> (dgh_#)\n"
           "  before_rows_# = Flatten <axis: int = 2> (before_#)\n"
           "  dgt_# = Transpose <perm: ints = [1, 0]> (dg_rows_#)\n"
           "  dght_# = Transpose <perm: ints = [1, 0]> (dgh_rows_#)\n"
           "  dw_# = MatMul (dgt_#, rows)\n");
    add(f, f->inside ? "  dzt_#, drt_#, dnt_# = Split <axis: int = 0, num_outputs: int = 3> (dght_#)\n"
                       "  dzrt_# = Concat <axis: int = 0> (dzt_#, drt_#)\n"
                       "  rh_rows_# = Flatten <axis: int = 2> (rh_#)\n"
                       "  dr_zr_# = MatMul (dzrt_#, before_rows_#)\n"
                       "  dr_n_# = MatMul (dnt_#, rh_rows_#)\n"
                       "  dr_# = Concat <axis: int = 0> (dr_zr_#, dr_n_#)\n"
                     : "  dr_# = MatMul (dght_#, before_rows_#)\n");
    add(f, "  dwb_# = ReduceSum <keepdims: int = 0> (dg_rows_#, first_axis)\n"
           "  drb_# = ReduceSum <keepdims: int = 0> (dgh_rows_#, first_axis)\n"
           "  db_# = Concat <axis: int = 0> (dwb_#, drb_#)\n");
    if (f->peepholes)
        add(f, "  dgi_#, dgo_#, dgf_#, dgg_# = Split <axis: int = -1, num_outputs: int = 4> (dg_#)\n"
               "  with_i_# = Mul (dgi_#, c_before_#)\n"
               "  with_o_# = Mul (dgo_#, c_#)\n"
               "  with_f_# = Mul (dgf_#, c_before_#)\n"
               "  with_# = Concat <axis: int = -1> (with_i_#, with_o_#, with_f_#)\n"
               "  with_rows_# = Flatten <axis: int = 2> (with_#)\n"
               "  dp_# = ReduceSum <keepdims: int = 0> (with_rows_#, first_axis)\n");
}

/* Result `to`: the directions' parts, side by side along a new first axis, or added up. */
static void add_result(const variant *f, uint32_t result, const char *part, const char *perm) {
    const char *to = results[result];
    tc_body *body = f->body;
    bool sum = result == TC_RNN_DX, turned = perm && f->layer.batch_first;
    if (!has(f, TC_RNN_LAYER + tc_recurrent_gradient_of[result])) { /* it has no reader */
        tc_body_add(body, "  %s = Identity (zero)\n", to);
        return;
    }
    for (int d = 0; d < f->layer.directions && !sum; d++)
        tc_body_add(body, "  %s_up_%d = Unsqueeze (%s_%d, first_axis)\n", part, d, part, d);
    if (f->layer.directions == 1)
        tc_body_add(body, "  %s_all = Identity (%s%s_0)\n", part, part, sum ? "" : "_up");
    else if (sum)
        tc_body_add(body, "  %s_all = Add (%s_0, %s_1)\n", part, part, part);
    else
        tc_body_add(body, "  %s_all = Concat <axis: int = 0> (%s_up_0, %s_up_1)\n", part, part, part);
    const char *all = tc_arena_printf(body->arena, "%s_all", part);
    if (turned)
        tc_body_add(body, "  %s_turned = Transpose <perm: ints = %s> (%s)\n", part, perm, all);
    all = turned ? tc_arena_printf(body->arena, "%s_turned", part) : all;
    tc_body_like(body, f->half, all, "Y", to);
}

static void add_results(const variant *f) {
    static const char *const parts[] = {"dx", "dw", "dr", "db", "dh_end", "dc_end", "dp"};
    for (uint32_t i = 0; i < f->node->n_outputs; i++)
        add_result(f, i, parts[i], i == TC_RNN_DX || i == TC_RNN_DH0 || i == TC_RNN_DC0 ? "[1, 0, 2]" : NULL);
}

/* --- the body --------------------------------------------------------------------------------- */

static void suffix(const variant *f) {
    static const char letters[] = {[TC_RNN_TANH] = 't', [TC_RNN_SIGMOID] = 's', [TC_RNN_RELU] = 'r'};
    const tc_recurrent *layer = &f->layer;
    tc_body_suffix(f->body, "_%s_%s", tc_attr_string(f->node, "cell", ""),
                   layer->directions == 2 ? "two"
                   : layer->backward      ? "back"
                                          : "fore");
    for (int d = 0; d < layer->directions; d++)
        for (int i = 0; i < layer->n_functions; i++)
            tc_body_suffix(f->body, "%s%c", d + i == 0 ? "_" : "", letters[layer->functions[d][i]]);
    tc_body_suffix(f->body, "_%s%s%s%d_", layer->reset_after ? "a" : "", layer->batch_first ? "b" : "",
                   f->half ? "h" : "", (int)f->node->n_outputs);
    for (uint32_t i = 0; i < f->node->n_inputs; i++)
        if (has(f, i))
            tc_body_suffix(f->body, "%x", (unsigned)i);
}

static const char *list(tc_arena *arena, const char *const *from, uint32_t n) {
    const char *text = from[0];
    for (uint32_t i = 1; i < n; i++)
        text = tc_arena_printf(arena, "%s, %s", text, from[i]);
    return text;
}

bool tc_make_recurrence_grad(tc_body *body) {
    const tc_node *node = body->node;
    variant f = {.body = body, .node = node, .half = tc_dtype_is_half(tc_value_dtype(tc_input(node, 0)))};
    const char *why;
    if (tc_recurrent_read(node, &f.layer, &why) != TC_OK)
        return false;
    f.lens = has(&f, TC_RNN_LAYER + TC_RNN_LENS);
    f.bias = has(&f, TC_RNN_LAYER + TC_RNN_B);
    f.peepholes = has(&f, TC_RNN_LAYER + TC_RNN_P);
    f.inside = f.layer.cell == TC_GRU && !f.layer.reset_after;
    suffix(&f);
    tc_body_begin(body, "", list(body->arena, names, node->n_inputs), list(body->arena, results, node->n_outputs));
    add_operands(&f);
    for (; f.direction < f.layer.directions; f.direction++) {
        add_direction(&f);
        add_sums(&f);
        if (f.layer.cell == TC_LSTM)
            lstm_gates(&f), lstm_back(&f);
        else if (f.layer.cell == TC_GRU)
            gru_gates(&f), gru_back(&f);
        else
            plain_back(&f);
        add_weight_gradients(&f);
    }
    add_results(&f);
    tc_body_end(body);
    return true;
}
