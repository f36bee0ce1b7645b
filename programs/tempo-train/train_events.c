/* train_events.c: scalars -> an event file of TensorBoard's. */
#include "train_log.h"
#include "runtime/files/files.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TAG = 512, MOST_EVENT = MOST_TAG + 64 };

/* --- protobuf: a field is its number and wire type, then its bytes -------------------------------- */

typedef enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire;

typedef struct message {
    unsigned char bytes[MOST_EVENT];
    size_t n;
} message;

static void put_varint(message *m, uint64_t value) {
    for (; value >= 128; value >>= 7)
        m->bytes[m->n++] = (unsigned char)(value | 128);
    m->bytes[m->n++] = (unsigned char)value;
}

static void put_key(message *m, unsigned field, wire type) { put_varint(m, field << 3 | (unsigned)type); }

static void put_little(message *m, uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; i++)
        m->bytes[m->n++] = (unsigned char)(bits >> 8 * i);
}

static void put_double(message *m, unsigned field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, FIXED64);
    put_little(m, bits, 8);
}

static void put_float(message *m, unsigned field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, FIXED32);
    put_little(m, bits, 4);
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t n) {
    put_key(m, field, BYTES);
    put_varint(m, n);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static message begin_event(void) {
    struct timespec now;
    message event = {.n = 0};
    clock_gettime(CLOCK_REALTIME, &now);
    put_double(&event, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec); /* wall_time */
    return event;
}

/* --- records: length, its checksum, bytes, their checksum ----------------------------------------- */

static void put_checksum(message *frame, const void *bytes, size_t n) {
    put_little(frame, rt_crc32c_masked(rt_crc32c(0, bytes, n)), 4);
}

static void write_record(train_events *e, const message *event) {
    message head = {.n = 0}, tail = {.n = 0};
    put_little(&head, event->n, 8);
    put_checksum(&head, head.bytes, 8);
    put_checksum(&tail, event->bytes, event->n);
    fwrite(head.bytes, 1, head.n, e->file);
    fwrite(event->bytes, 1, event->n, e->file);
    fwrite(tail.bytes, 1, tail.n, e->file);
    fflush(e->file);
}

tc_status train_events_open(tc_ctx *ctx, const char *folder, train_events *out) {
    char host[256] = "host";
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tc_error(ctx, TC_IO, NULL, "--tensorboard: cannot make the folder %s: %s", tc_quote(ctx, folder),
                        strerror(errno));
    (void)gethostname(host, sizeof host - 1);
    out->path = tc_arena_printf(ctx->arena, "%s/events.out.tfevents.%" PRId64 ".%s.%u.tempo", folder,
                                (int64_t)time(NULL), host, tc_random_name());
    out->file = fopen(out->path, "wbxe");
    if (!out->file)
        return tc_error(ctx, TC_IO, NULL, "--tensorboard: cannot write %s: %s", tc_quote(ctx, out->path),
                        strerror(errno));
    message event = begin_event();
    static const char version[] = "brain.Event:2";
    put_bytes(&event, 3, version, sizeof version - 1); /* file_version: the first event of a file */
    write_record(out, &event);
    return TC_OK;
}

void train_events_scalar(train_events *e, const char *tag, int64_t step, double value) {
    if (!e->file)
        return;
    message item = {.n = 0}, summary = {.n = 0}, event = begin_event();
    put_bytes(&item, 1, tag, strnlen(tag, MOST_TAG)); /* tag */
    put_float(&item, 2, (float)value);                /* simple_value */
    put_bytes(&summary, 1, item.bytes, item.n);       /* value */
    put_key(&event, 2, VARINT);                       /* step */
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, summary.bytes, summary.n); /* summary */
    write_record(e, &event);
}

bool train_events_close(train_events *e) {
    if (!e->file)
        return true;
    bool whole = !ferror(e->file);
    whole = fclose(e->file) == 0 && whole;
    e->file = NULL;
    return whole;
}
