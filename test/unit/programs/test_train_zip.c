/* test_train_zip.c: members of archives that are put together by hand, from PKWARE's description, and of such archives
 * with every byte changed and every end cut off. */
#include "test/unit/cases.h"
#include "programs/tempo-train/data/train_zip.h"
#include <stdlib.h>
#include <string.h>

/* --- archives by hand ------------------------------------------------------------------------- */

typedef struct archive {
    unsigned char bytes[1024];
    size_t n;
} archive;

static void put(archive *a, uint64_t value, int width) {
    for (int i = 0; i < width; i++)
        a->bytes[a->n++] = (unsigned char)(i < 8 ? value >> 8 * i : 0);
}

static void put_text(archive *a, const char *text) {
    memcpy(a->bytes + a->n, text, strlen(text));
    a->n += strlen(text);
}

enum { FEW = 2 };
static const char *const names[FEW] = {"x.npy", "dir/y.npy"};
static const char *const contents[FEW] = {"twelve bytes", "five!"};
static const uint16_t methods[FEW] = {0, 8};

/* Local headers have an extra field of so many bytes; `wide`: all numbers stand in fields of zip64. */
static archive make(bool wide, size_t extra, const char *comment) {
    archive a = {.n = 0};
    size_t places[FEW];
    const uint32_t no = 0xffffffff;
    for (int i = 0; i < FEW; i++) {
        uint32_t size = (uint32_t)strlen(contents[i]);
        places[i] = a.n;
        put(&a, 0x04034b50, 4), put(&a, 45, 2), put(&a, 0, 2), put(&a, methods[i], 2), put(&a, 0, 8);
        put(&a, wide ? no : size, 4), put(&a, wide ? no : size, 4);
        put(&a, strlen(names[i]), 2), put(&a, extra, 2);
        put_text(&a, names[i]);
        put(&a, 0, (int)extra);
        put_text(&a, contents[i]);
    }
    size_t begin = a.n;
    for (int i = 0; i < FEW; i++) {
        uint32_t size = (uint32_t)strlen(contents[i]);
        put(&a, 0x02014b50, 4), put(&a, 45, 4), put(&a, 0, 2), put(&a, methods[i], 2), put(&a, 0, 8);
        put(&a, wide ? no : size, 4), put(&a, wide ? no : size, 4);
        put(&a, strlen(names[i]), 2), put(&a, wide ? 34 : 0, 2), put(&a, 0, 10);
        put(&a, wide ? no : places[i], 4);
        put_text(&a, names[i]);
        if (wide) { /* a field of somebody else, then zip64's */
            put(&a, 0x5455, 2), put(&a, 2, 2), put(&a, 0, 2);
            put(&a, 1, 2), put(&a, 24, 2), put(&a, size, 8), put(&a, size, 8), put(&a, places[i], 8);
        }
    }
    size_t end = a.n;
    if (wide) {
        put(&a, 0x06064b50, 4), put(&a, 44, 8), put(&a, 45, 4), put(&a, 0, 8);
        put(&a, FEW, 8), put(&a, FEW, 8), put(&a, end - begin, 8), put(&a, begin, 8);
        put(&a, 0x07064b50, 4), put(&a, 0, 4), put(&a, end, 8), put(&a, 1, 4);
    }
    put(&a, 0x06054b50, 4), put(&a, 0, 4), put(&a, wide ? 0xffff : FEW, 2), put(&a, wide ? 0xffff : FEW, 2);
    put(&a, wide ? no : end - begin, 4), put(&a, wide ? no : begin, 4), put(&a, strlen(comment), 2);
    put_text(&a, comment);
    return a;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Looks at the archive in memory of just its size, so that a read behind it is found; what a member's bytes are stays
 * inside. How many stored members can be had; -1: it is refused. */
static int look(const unsigned char *bytes, size_t size, const char **out_data, size_t *out_bytes) {
    tc_ctx ctx;
    train_zip_member *members;
    size_t n = 0;
    int found = 0;
    unsigned char *copy = malloc(size + 1);
    memcpy(copy + 1, bytes, size); /* at an odd address */
    tc_ctx_init(&ctx, "test");
    tc_status status = train_zip_list(&ctx, ctx.arena, copy + 1, size, &members, &n);
    assert_true(status == TC_OK || (status == TC_BAD_INPUT && ctx.n_diags == 1));
    for (size_t i = 0; status == TC_OK && i < n; i++) {
        const unsigned char *data;
        if (!members[i].stored || train_zip_data(&ctx, copy + 1, size, &members[i], &data) != TC_OK)
            continue;
        assert_true(data >= copy + 1 && members[i].bytes <= (size_t)(copy + 1 + size - data));
        if (out_data) {
            *out_data = (const char *)bytes + (data - copy - 1);
            *out_bytes = (size_t)members[i].bytes;
        }
        found++;
    }
    free(copy);
    tc_ctx_fini(&ctx);
    return status == TC_OK ? found : -1;
}

TEST(members_are_found) {
    for (int k = 0; k < 8; k++) {
        archive a = make(k % 2, k / 2 % 2 ? 20 : 0, k / 4 ? "PK\5\6 is no end here, though it looks so" : "");
        const char *data = NULL;
        size_t bytes = 0;
        assert_int_equal(look(a.bytes, a.n, &data, &bytes), 1); /* the other one is compressed */
        assert_int_equal(bytes, strlen(contents[0]));
        assert_memory_equal(data, contents[0], bytes);
    }
}

TEST(every_end_is_cut_off) {
    for (int wide = 0; wide < 2; wide++) {
        archive a = make(wide, 20, "");
        for (size_t size = 0; size < a.n; size++)
            assert_int_equal(look(a.bytes, size, NULL, NULL), -1);
    }
}

/* Each byte becomes each of some others: refused, or whatever is found lies inside. */
TEST(every_byte_is_changed) {
    static const unsigned char others[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (int wide = 0; wide < 2; wide++) {
        archive a = make(wide, 4, "");
        for (size_t i = 0; i < a.n; i++)
            for (size_t k = 0; k < sizeof others + 8; k++) {
                archive bad = a;
                bad.bytes[i] = (unsigned char)(k < 8 ? bad.bytes[i] ^ 1u << k : others[k - 8]);
                (void)look(bad.bytes, bad.n, NULL, NULL);
            }
    }
}

/* What is said of a member is not so. */
TEST(members_are_compared) {
    archive a = make(false, 0, "");
    size_t directory = 30 + 5 + 12 + 30 + 9 + 5;
    static const struct {
        size_t at; /* of the directory's first entry, or of the archive */
        unsigned char value;
        bool in_entry;
    } changes[] = {{24, 13, true}, {42, 1, true}, {20, 200, true}, {46, 'z', true}, {30, 'z', false}, {0, 'Q', false}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        archive bad = a;
        bad.bytes[changes[i].at + (changes[i].in_entry ? directory : 0)] = changes[i].value;
        assert_int_equal(look(bad.bytes, bad.n, NULL, NULL), 0);
    }
    a.bytes[directory + 20] = a.bytes[directory + 24] = 250; /* both sizes, more than there is */
    assert_int_equal(look(a.bytes, a.n, NULL, NULL), 0);
}
