/* room.h: memory for libraries that make code and threads when they are first called: where there is none for it, they
 * crash or end the process. So they are called early, and only where there is room. */
#ifndef TK_ROOM_H
#define TK_ROOM_H
#include <stdbool.h>
#include <stddef.h>

/* Whether this process could take so many bytes now; none are taken. */
bool tk_has_room(size_t bytes);

/* A limit of this process (ulimit -v, -d) makes memory fail where the machine has some: what libraries make late is
 * then made before anybody counts what is left. */
bool tk_is_limited(void);
#endif
