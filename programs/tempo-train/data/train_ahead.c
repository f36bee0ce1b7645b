/* train_ahead.c: reads ahead in files that do not fit in memory and are read in random order: the rows of the next
 * batch are requested as soon as they are known, so that the disk works beside the step. */
#include "train_parts.h"
#include <sys/mman.h>
#include <unistd.h>

static void ask(const unsigned char *data, uint64_t begin, uint64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data + begin, aligned = at - at % page;
    if (bytes > 0)
        posix_madvise((void *)aligned, (size_t)(at - aligned + bytes), POSIX_MADV_WILLNEED);
}

/* Of a packed row, the part in the file that it begins in. */
static size_t find_packed(const train_data *d, const train_column *c, int64_t first) {
    size_t k = 0;
    while (k + 1 < d->source.n && first >= c->parts[k].first + c->parts[k].rows)
        k++;
    return k;
}

static void ask_for_row(const train_data *d, const train_column *c, int64_t sample) {
    bool packed = d->options.pack > 0;
    uint64_t row = c->elements * tempo_dtype_size(c->dtype);
    int64_t first, n = 1;
    size_t k;
    if (c->kind == TRAIN_RAGGED) {
        n = train_row_length(d, c, sample, &first);
        k = packed ? find_packed(d, c, first) : train_file_of(d, sample);
        first -= packed ? c->parts[k].first : 0;
    } else {
        k = train_file_of(d, sample);
        first = sample - d->first[k];
    }
    n = n < c->parts[k].rows - first ? n : c->parts[k].rows - first;
    ask(c->parts[k].data, (uint64_t)first * row, (uint64_t)n * row);
}

void train_ask_ahead(train_data *d, int64_t epoch, int64_t index) {
    int64_t all;
    train_pick(d, epoch, index, &all);
    int64_t end = train_share(all, d->options.rank + 1, d->options.ranks);
    for (int64_t i = train_share(all, d->options.rank, d->options.ranks); i < end; i++)
        for (size_t k = 0; k < d->n_columns; k++)
            if (d->columns[k].kind == TRAIN_ROWS || d->columns[k].kind == TRAIN_RAGGED)
                ask_for_row(d, &d->columns[k], (int64_t)d->picked[i]);
}
