/* train_parts.h: the parts of an open source: a column for each input, with a part in each file. Inside train_data's
 * own files only. */
#ifndef TRAIN_PARTS_H
#define TRAIN_PARTS_H
#include "compiler/ir/ir.h"
#include "train_arrays.h"
#include "train_data.h"
#include "train_order.h"

typedef enum train_kind { TRAIN_ROWS, TRAIN_RAGGED, TRAIN_CONSTANT, TRAIN_MADE } train_kind;

/* The array of one file. */
typedef struct train_part {
    const unsigned char *data;
    const unsigned char *offsets; /* int64[samples + 1] at any alignment; NULL: none */
    int64_t rows;                 /* ragged: tokens */
    int64_t first;                /* rows of earlier files */
} train_part;

typedef struct train_column {
    train_input input;
    train_kind kind;
    tempo_dtype dtype;   /* of the array */
    int rank;            /* of what a row is */
    const int64_t *dims; /* [rank], likewise: without the axis of samples, or tokens */
    uint64_t elements;   /* of a row */
    train_part *parts;   /* [files] */
    size_t offsets_of;   /* the column whose offsets these are: usually itself; for a made mask, the ragged one */
    int64_t cut;         /* ragged: tokens of a row that are taken, at most */
    int64_t fixed;       /* ragged and made: the length that the input wants; 0: any */
    unsigned char padding[8], one[8]; /* elements of the input's type */
    void *buffer;                     /* malloc */
    size_t capacity;
    int64_t *batch_dims; /* [rank + 2] */
    bool filled;         /* of a constant */
} train_column;

/* Samples sorted by length, for one window of an epoch. */
typedef struct train_window {
    int64_t epoch, index; /* index -1: none yet */
    uint64_t *samples;    /* in the arena */
} train_window;

struct train_data {
    tc_arena *arena;
    tc_held held;
    train_files source;
    train_data_options options;
    train_column *columns; /* [n_columns] in the order of inputs */
    size_t n_columns;
    size_t lead;    /* the first ragged column; n_columns: there is none */
    size_t counted; /* the column by which tokens are counted; n_columns: they are not */
    bool counted_is_mask;
    int64_t *first;   /* [files + 1] samples of earlier files */
    int64_t samples;  /* all of them */
    int64_t together; /* samples of a global batch */
    int64_t batches;
    train_order order;
    int64_t order_epoch; /* -1: none yet */
    train_window window;
    uint64_t *picked; /* [the smaller of together and samples] of the current global batch */
    rt_array *arrays; /* [n_columns] the tensors handed out */
    bool is_large;    /* rows are asked for ahead */
};

/* Makes columns of the first file's arrays and inputs. train_columns.c */
tc_status train_columns_decide(tc_ctx *ctx, train_data *d, const train_input *inputs, size_t n_inputs);
/* Fills their parts in all files, and d->first. train_parts.c */
tc_status train_parts_take(tc_ctx *ctx, train_data *d);
const train_array *train_offsets_in(train_data *d, const train_file *file, const char *name);
/* Lengths, cut and padding of ragged columns. train_ragged.c */
tc_status train_ragged_prepare(tc_ctx *ctx, train_data *d);
/* TC_BAD_INPUT unless these are offsets of so many tokens. train_ragged.c */
tc_status train_check_offsets(tc_ctx *ctx, const train_array *offsets, int64_t tokens);
/* "int64[100,3]", in the context's arena; rank below 0 or dims below 0 are "?". train_columns.c */
const char *train_type_text(tc_ctx *ctx, tempo_dtype dtype, int rank, const int64_t *dims);

/* Of m samples those before rank r's, of so many ranks. */
static inline int64_t train_share(int64_t m, int64_t rank, int64_t ranks) { return m * rank / ranks; }

/* The file that a sample is in. */
size_t train_file_of(const train_data *d, int64_t sample);
/* Sets the context's file to that one; returns the sample's number in it. */
int64_t train_blame(tc_ctx *ctx, const train_data *d, int64_t sample);
/* Tokens of a sample's row, cut; *out_first is the first one, a row of the part in its file. */
int64_t train_row_length(const train_data *d, const train_column *column, int64_t sample, int64_t *out_first);
/* The length to which rows of the lengths of these samples are padded. */
int64_t train_padded_length(const train_data *d, const train_column *column, const uint64_t *samples, int64_t n);

/* Samples of a global batch, in their order: d->picked; *out_n of them. train_pick.c */
void train_pick(train_data *d, int64_t epoch, int64_t index, int64_t *out_n);
/* Asks the system to read the rows of a batch while another is computed. train_ahead.c */
void train_ask_ahead(train_data *d, int64_t epoch, int64_t index);
/* Tokens without padding. train_batch.c */
int64_t train_count_tokens(const train_data *d, const uint64_t *samples, int64_t n);
#endif
