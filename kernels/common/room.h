/* room.h: memory for libraries that generate code and start threads at their first call. Without memory they crash or
 * end the process, so they are called early, and only where there is room. */
#ifndef TK_ROOM_H
#define TK_ROOM_H
#include <stdbool.h>
#include <stddef.h>

/* Whether this process could take so many bytes now; none are taken. */
bool tk_has_room(size_t bytes);

/* Under a limit of this process (ulimit -v, -d) memory fails though the machine has some: libraries then allocate
 * before the remaining memory is counted. */
bool tk_is_limited(void);
#endif
