/* train_zip.c: the directory of a zip archive. Every number of the file is a claim: it is compared with the file's size
 * and contents before it is used. */
#include "train_zip.h"
#include "compiler/base/base.h"
#include <string.h>

/* Records: their first four bytes and their sizes without variable parts. */
enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, ENTRY_SIZE = 46, LOCAL_SIZE = 30, LONGEST_COMMENT = 65535 };
#define END_MARK UINT32_C(0x06054b50)
#define LOCATOR_MARK UINT32_C(0x07064b50)
#define END64_MARK UINT32_C(0x06064b50)
#define ENTRY_MARK UINT32_C(0x02014b50)
#define LOCAL_MARK UINT32_C(0x04034b50)
#define IN_ZIP64 UINT32_C(0xffffffff) /* the number is in a field of 64 bits elsewhere */
enum { IN_ZIP64_SHORT = 0xffff, ZIP64_FIELD = 1, ENCRYPTED = 1, STORED = 0 };

typedef struct bytes {
    const unsigned char *at;
    uint64_t size;
} bytes;

static uint64_t number(const unsigned char *at, int width) {
    uint64_t value = 0;
    for (int i = width; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static uint16_t get16(const unsigned char *at) { return (uint16_t)number(at, 2); }
static uint32_t get32(const unsigned char *at) { return (uint32_t)number(at, 4); }
static uint64_t get64(const unsigned char *at) { return number(at, 8); }

static tc_status bad(tc_ctx *ctx, const char *what) {
    return tc_error(ctx, TC_BAD_INPUT, NULL, "no whole zip archive: %s", what);
}

/* --- the end of the archive ------------------------------------------------------------------- */

typedef struct directory {
    uint64_t entries, begin, size;
} directory;

/* The record at the end stands before a comment, which may look like one. */
static bool find_end(bytes archive, uint64_t *out_at) {
    if (archive.size < END_SIZE)
        return false;
    for (uint64_t comment = 0; comment <= LONGEST_COMMENT && comment + END_SIZE <= archive.size; comment++) {
        uint64_t at = archive.size - END_SIZE - comment;
        if (get32(archive.at + at) == END_MARK && get16(archive.at + at + 20) == comment) {
            *out_at = at;
            return true;
        }
    }
    return false;
}

/* Of archives with sizes, places or numbers that 32 bits do not hold. */
static tc_status read_end64(tc_ctx *ctx, bytes archive, uint64_t end, directory *out) {
    if (end < LOCATOR_SIZE + END64_SIZE || get32(archive.at + end - LOCATOR_SIZE) != LOCATOR_MARK)
        return bad(ctx, "its zip64 record is missing");
    uint64_t at = get64(archive.at + end - LOCATOR_SIZE + 8);
    if (at > end - LOCATOR_SIZE - END64_SIZE || get32(archive.at + at) != END64_MARK)
        return bad(ctx, "its zip64 record is elsewhere");
    *out = (directory){get64(archive.at + at + 32), get64(archive.at + at + 48), get64(archive.at + at + 40)};
    return TC_OK;
}

static tc_status read_end(tc_ctx *ctx, bytes archive, directory *out) {
    uint64_t at;
    if (!find_end(archive, &at))
        return bad(ctx, "its directory is missing");
    const unsigned char *end = archive.at + at;
    *out = (directory){get16(end + 10), get32(end + 16), get32(end + 12)};
    if (out->entries == IN_ZIP64_SHORT || out->begin == IN_ZIP64 || out->size == IN_ZIP64)
        TC_TRY(read_end64(ctx, archive, at, out));
    if (out->begin > at || out->size > at - out->begin || out->entries > out->size / ENTRY_SIZE)
        return bad(ctx, "its directory is not where it should be");
    return TC_OK;
}

/* --- entries ---------------------------------------------------------------------------------- */

/* Numbers of 64 bits stand in a field of their own, in this order, but only those that are needed. */
static bool read_zip64(bytes extra, uint64_t *const wide[3], const bool needed[3]) {
    while (extra.size >= 4) {
        uint64_t id = get16(extra.at), size = get16(extra.at + 2);
        if (size > extra.size - 4)
            return false;
        if (id == ZIP64_FIELD) {
            const unsigned char *at = extra.at + 4;
            for (int i = 0; i < 3; i++) {
                if (!needed[i])
                    continue;
                if (size < 8)
                    return false;
                *wide[i] = get64(at);
                at += 8;
                size -= 8;
            }
            return true;
        }
        extra.at += 4 + size;
        extra.size -= 4 + size;
    }
    return !needed[0] && !needed[1] && !needed[2];
}

static tc_status read_entry(tc_ctx *ctx, tc_arena *arena, bytes *left, train_zip_member *out) {
    if (left->size < ENTRY_SIZE || get32(left->at) != ENTRY_MARK)
        return bad(ctx, "its directory is damaged");
    const unsigned char *at = left->at;
    uint64_t name = get16(at + 28), extra = get16(at + 30), all = ENTRY_SIZE + name + extra + get16(at + 32);
    if (all > left->size || memchr(at + ENTRY_SIZE, 0, name))
        return bad(ctx, "its directory is damaged");
    *out = (train_zip_member){
        .name = tc_arena_strndup(arena, (const char *)at + ENTRY_SIZE, name),
        .stored = get16(at + 10) == STORED && (get16(at + 8) & ENCRYPTED) == 0,
        .header = get32(at + 42),
        .bytes = get32(at + 24),
        .packed = get32(at + 20),
    };
    uint64_t *const wide[3] = {&out->bytes, &out->packed, &out->header};
    const bool needed[3] = {out->bytes == IN_ZIP64, out->packed == IN_ZIP64, out->header == IN_ZIP64};
    if (!read_zip64((bytes){at + ENTRY_SIZE + name, extra}, wide, needed))
        return bad(ctx, "its directory lacks a size");
    left->at += all;
    left->size -= all;
    return TC_OK;
}

static tc_status list_members(tc_ctx *ctx, tc_arena *arena, bytes whole, train_zip_member **out_members,
                              size_t *out_n) {
    directory found = {0};
    TC_TRY(read_end(ctx, whole, &found));
    bytes left = {whole.at + found.begin, found.size};
    *out_n = (size_t)found.entries;
    *out_members = TC_NEW_ARRAY(arena, train_zip_member, *out_n + 1);
    for (size_t i = 0; i < *out_n; i++)
        TC_TRY(read_entry(ctx, arena, &left, &(*out_members)[i]));
    return TC_OK;
}

tc_status train_zip_list(tc_ctx *ctx, tc_arena *arena, const void *archive, size_t size, train_zip_member **out_members,
                         size_t *out_n) {
    tc_status status = list_members(ctx, arena, (bytes){archive, size}, out_members, out_n);
    if (status != TC_OK)
        tc_hint_no_archive(ctx, archive, size);
    return status;
}

tc_status train_zip_data(tc_ctx *ctx, const void *archive, size_t size, const train_zip_member *member,
                         const unsigned char **out_data) {
    const unsigned char *whole = archive;
    size_t name = strlen(member->name);
    const char *what = NULL;
    uint64_t begin = 0;
    TC_ASSERT(member->stored);
    if (member->bytes != member->packed)
        what = "its size cannot be what the archive says";
    else if (size < LOCAL_SIZE || member->header > size - LOCAL_SIZE || get32(whole + member->header) != LOCAL_MARK)
        what = "it is not where the archive's directory says";
    else
        begin = member->header + LOCAL_SIZE + get16(whole + member->header + 26) + get16(whole + member->header + 28);
    if (!what && (begin > size || member->bytes > size - begin))
        what = "it is cut off";
    else if (!what && (get16(whole + member->header + 26) != name ||
                       memcmp(whole + member->header + LOCAL_SIZE, member->name, name) != 0))
        what = "the archive's directory has another name for it";
    if (what)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "member '%s' of the archive: %s", tc_quote(ctx, member->name), what);
    *out_data = whole + begin;
    return TC_OK;
}
