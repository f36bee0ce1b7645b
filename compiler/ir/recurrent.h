/* recurrent.h: the attributes of LSTM, GRU, RNN and ai.tempo.RecurrenceGrad, read in one place. */
#ifndef TC_RECURRENT_H
#define TC_RECURRENT_H
#include "compiler/base/base.h"
#include "ir.h"

typedef enum tc_recurrent_cell { TC_RNN, TC_GRU, TC_LSTM } tc_recurrent_cell;
/* The activation functions with kernels and gradients. */
typedef enum tc_recurrent_function { TC_RNN_TANH, TC_RNN_SIGMOID, TC_RNN_RELU } tc_recurrent_function;

typedef struct tc_recurrent {
    tc_recurrent_cell cell;
    int gates;      /* rows of W and R for each state element */
    int directions; /* 1 or 2 */
    bool backward;  /* the only direction is from the last step to the first */
    bool batch_first, reset_after;
    float clip; /* 0: none */
    int n_functions;
    tc_recurrent_function functions[2][3]; /* of each direction [n_functions]: f, g, h */
} tc_recurrent;

/* TC_BAD_INPUT: attributes that ONNX does not know; TC_UNSUPPORTED: functions and couplings without kernels. */
tc_status tc_recurrent_of(tc_ctx *ctx, const tc_node *node, tc_recurrent *out);
/* The same without a diagnostic: the message is in *why. */
tc_status tc_recurrent_read(const tc_node *node, tc_recurrent *out, const char **why);
/* "Tanh" and so on, as ONNX has it. */
const char *tc_recurrent_function_name(tc_recurrent_function function);

/* The operands of a layer; its results are Y, Y_h, Y_c. */
enum { TC_RNN_X, TC_RNN_W, TC_RNN_R, TC_RNN_B, TC_RNN_LENS, TC_RNN_H0, TC_RNN_C0, TC_RNN_P, TC_RNN_OPERANDS };
/* The operands of its gradient: Y, those of the layer from TC_RNN_LAYER on, and the gradients of its results. */
enum { TC_RNN_Y, TC_RNN_LAYER, TC_RNN_DY = TC_RNN_LAYER + TC_RNN_OPERANDS, TC_RNN_DH, TC_RNN_DC };
enum { TC_RNN_DX, TC_RNN_DW, TC_RNN_DR, TC_RNN_DB, TC_RNN_DH0, TC_RNN_DC0, TC_RNN_DP, TC_RNN_GRADIENTS };
/* The layer's operand whose gradient the result is. */
extern const uint32_t tc_recurrent_gradient_of[TC_RNN_GRADIENTS];
#endif
