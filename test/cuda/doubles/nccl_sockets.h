/* nccl_sockets.h: bytes between the ranks of the double of NCCL: sockets of one machine, whose names the kernel gives
 * and forgets. A socket of -1 stands for none: nothing goes that way. */
#ifndef NCCL_SOCKETS_H
#define NCCL_SOCKETS_H
#include <stdbool.h>
#include <stddef.h>

typedef enum nccl_outcome { NCCL_DONE, NCCL_GONE, NCCL_LATE } nccl_outcome;

bool nccl_listen(char *out_id);  /* what the others need to connect: 128 bytes */
int nccl_accept(const char *id); /* of this process's id, or an ancestor's; -1: nobody has connected yet */
bool nccl_has_come(int socket);  /* something, or the other side's end: within a millisecond */
int nccl_connect(const char *id);
void nccl_close(int socket);
bool nccl_send(int socket, const void *data, size_t bytes);
/* Waits for EMU_NCCL_SECONDS at most for each byte. */
nccl_outcome nccl_get(int socket, void *data, size_t bytes);
static inline bool nccl_receive(int socket, void *data, size_t bytes) {
    return nccl_get(socket, data, bytes) == NCCL_DONE;
}
/* Both sides send and receive so many bytes, few enough to be on their way at once. */
nccl_outcome nccl_exchange(int socket, const void *mine, void *theirs, size_t bytes);
#endif
