/* rnn_rows.c: rows of gates (rnn_rows.h) of floats and of doubles. */
#include "rnn_rows.h"

#define T float
#define SUFFIX f32
#include "rnn_rows_tmpl.h"
#define T double
#define SUFFIX f64
#include "rnn_rows_tmpl.h"
