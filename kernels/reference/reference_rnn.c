/* reference_rnn.c: recurrent layers and their gradients, by their definition. */
#include "reference.h"

static void tell(tk_queue *q, tk_status status) {
    if (status != TK_OK)
        tk_fault(q, status);
}

void tk_reference_rnn_run(tk_queue *q, tk_rnn_results out, tk_rnn_operands in, const tk_rnn *rnn, void *workspace) {
    (void)workspace;
    tell(q, tk_rnn_ref(out, in, rnn));
}

void tk_reference_rnn_grad_run(tk_queue *q, tk_rnn_gradients out, tk_rnn_operands in, tk_rnn_back back,
                               const tk_rnn *rnn, void *workspace) {
    (void)workspace;
    tell(q, tk_rnn_grad_ref(out, in, back, rnn));
}
