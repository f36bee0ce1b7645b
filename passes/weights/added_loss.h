/* added_loss.h: --add-loss=KIND[,SETTING...][:OUTPUT]: a loss for a file without one, as its text says it, and the
 * output that it is a loss of. passes/inference builds it. */
#ifndef TC_ADDED_LOSS_H
#define TC_ADDED_LOSS_H
#include "passes/pass/pass.h"

typedef enum tc_loss_kind {
    TC_LOSS_CLASSES, /* cross-entropy of class scores with labels: torch.nn.CrossEntropyLoss */
    TC_LOSS_TOKENS,  /* the same of each position with the next label, as transformers' causal models compute it */
    TC_LOSS_MSE,
    TC_LOSS_L1,
    TC_LOSS_BCE, /* of logits: torch.nn.BCEWithLogitsLoss */
    TC_LOSS_FILE /* a graph in ONNX text */
} tc_loss_kind;

typedef struct tc_added_loss {
    tc_loss_kind kind;
    const char *word;   /* as given: "mse", or the path of a file */
    const char *output; /* NULL: the only one that fits */
    const char *input;  /* the name of the input for labels or target */
    int64_t ignore;     /* the label that counts for nothing */
    int64_t axis;       /* of the classes; TC_AXIS_USUAL: 1, and the last of three */
    double smoothing;   /* PyTorch's label_smoothing */
    bool shift;         /* positions predict the label of the next */
} tc_added_loss;
#define TC_AXIS_USUAL INT64_MIN

/* Reads the text of the option, in the context's arena; TC_USAGE with a message. */
tc_status tc_added_loss_parse(tc_ctx *ctx, const char *text, tc_added_loss *out);
/* The output of a typed graph that the loss is of: the one it names, or the only one that fits. TC_USAGE, with an
 * error that lists the outputs. */
tc_status tc_added_loss_output(tc_ctx *ctx, const tc_graph *graph, const tc_added_loss *added, tc_value **out_value);
/* The same without a message; NULL: there is none. */
tc_value *tc_added_loss_known(const tc_options *options, const tc_graph *graph);
/* What --add-loss could be for these outputs: "next-token"; NULL: no output fits any. */
const char *tc_added_loss_advice(tc_ctx *ctx, const tc_graph *graph);
#endif
