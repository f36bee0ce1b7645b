/* train_data.h: files of samples -> the batches of an epoch, as tensors for a graph's inputs.
 *
 * A source is an .npz file, a .safetensors file, or a folder of such files, its shards, which are read as one in the
 * order of their names. Arrays are named after inputs, and their first axis counts samples. An input gets one of four
 * kinds of array:
 *
 *   rows      array[n, a, b] for input[batch, a, b]: the rows of the batch's samples
 *   ragged    array[tokens, a] for input[batch, length, a], and beside it NAME.offsets, int64[n + 1]: sample i has
 *             tokens offsets[i] to offsets[i + 1]. Padded to the batch's longest. An array without offsets of its own
 *             shares those of another of as many tokens (labels beside input_ids)
 *   constant  array[a, b] for an input with exactly these dims, all numbers, where n is another; or a scalar: the same
 *             in every batch
 *   made      no array, but the input's name ends in attention_mask, and there are ragged ones: 1 for a token, 0 for
 *             padding
 *
 * Uncompressed files are mapped, and only the pages that batches need are read: they may be larger than memory.
 * Compressed arrays are read whole, with a note. Integers of another width than the input's are converted where the
 * number fits; a number that would be rounded is refused. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H
#include "runtime/files/files.h"

typedef struct train_data train_data;

/* An input of the model that gets data. Inputs that the trainer itself binds (tempo.*, weights) are left out. */
typedef struct train_input {
    const char *name;
    tempo_dtype dtype;
    int rank;            /* known */
    const int64_t *dims; /* [rank] -1: open */
    bool optional;       /* it has a default: no array is needed */
    double padding;      /* of ragged arrays, by default: 0, or the label that a loss ignores (-100) */
} train_input;

typedef struct train_data_options {
    const char *path;
    int64_t batch;           /* samples of one batch of one rank, > 0 */
    uint64_t seed;           /* of the order */
    bool shuffle;            /* another order in each epoch; else that of the file */
    bool drop_last;          /* leaves out the last batch of an epoch if it is short */
    int rank, ranks;         /* this one of so many; ranks 0 is 1 */
    int64_t pad_multiple;    /* lengths of padded batches are multiples of this; 0: 8 */
    int64_t max_length;      /* rows of more tokens are cut, and no batch is padded beyond; 0: none are */
    const char *const *pads; /* [n_pads] "NAME=VALUE": the padding of an input's ragged array */
    size_t n_pads;
    int64_t pack;   /* tokens of a row: all ragged rows are one text, cut into rows of so many; 0: none are */
    int64_t bucket; /* global batches whose samples are sorted by length, then batches shuffled; 0, 1: not */
} train_data_options;

/* The batch of one rank. Of a last, short global batch of m samples rank r has those from m r / R to m (r + 1) / R. If
 * it has none, samples is 0, and the arrays hold a sample of another rank: it can then run with the others, but its
 * results must not count. */
typedef struct train_batch {
    rt_array *arrays; /* [n] named as the inputs, in their order; optional ones without data are left out */
    size_t n;
    int64_t samples, all_samples; /* of this rank; of all ranks */
    /* Tokens without padding, likewise: of the first ragged array; else of attention_mask, those that are not 0;
     * else elements of the first array that is int[batch, length]; else 0. */
    int64_t tokens, all_tokens;
} train_batch;

/* Opens the source and checks all of it but elements. TC_BAD_INPUT names the file and the array at fault: an input
 * without data, shapes, types or numbers of samples that do not fit, offsets that do not ascend or end elsewhere than
 * the tokens; TC_IO where a file cannot be read; TC_LIMIT where compressed arrays do not fit into memory; TC_USAGE for
 * options. Inputs and options are copied. On failure *out is NULL. */
tc_status train_data_open(tc_ctx *ctx, const train_data_options *options, const train_input *inputs, size_t n_inputs,
                          train_data **out);
void train_data_close(train_data *d); /* NULL is fine */

int64_t train_data_samples(const train_data *d); /* rows of packed data */
int64_t train_data_batches(const train_data *d); /* of an epoch, the last may be short; the same for every rank */
/* Of the source and of all that decides the order of its samples; never 0. Two sources with the same hash have the same
 * arrays, types and sizes, and begin and end alike. */
uint64_t train_data_hash(const train_data *d);

/* Batch `index` of an epoch, both from 0 on: a function of the source, the options and the two, independent of earlier
 * calls, on any machine. The result lies in buffers of `d`, aligned to 64 bytes, until the next call. TC_BAD_INPUT
 * where a number does not fit the input's type, or a row is longer than the model's fixed length; both name array and
 * sample. A mapped file that has become shorter raises SIGBUS (tc_program_handlers). */
tc_status train_data_batch(tc_ctx *ctx, train_data *d, int64_t epoch, int64_t index, train_batch *out);
#endif
