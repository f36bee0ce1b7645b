/* train_zip.h: where the members of a zip archive lie in its bytes, so that stored ones can be used in place. libzip,
 * which reads archives elsewhere, does not give positions. */
#ifndef TRAIN_ZIP_H
#define TRAIN_ZIP_H
#include "compiler/base/base.h"
#include <stdint.h>

typedef struct train_zip_member {
    const char *name;       /* in the arena */
    bool stored;            /* neither compressed nor encrypted: the bytes are the file's */
    uint64_t header;        /* of the member's own header, from the archive's first byte */
    uint64_t bytes, packed; /* as it is; in the archive */
} train_zip_member;

/* The members as the archive's directory lists them, zip64 included. TC_BAD_INPUT where the bytes are no whole archive.
 * The format is that of PKWARE's APPNOTE.TXT, 4.3. */
tc_status train_zip_list(tc_ctx *ctx, tc_arena *arena, const void *archive, size_t size, train_zip_member **out_members,
                         size_t *out_n);
/* The bytes of a stored member, member->bytes of them, inside the archive. TC_BAD_INPUT names a member that does not
 * match its entry in the directory. */
tc_status train_zip_data(tc_ctx *ctx, const void *archive, size_t size, const train_zip_member *member,
                         const unsigned char **out_data);
#endif
