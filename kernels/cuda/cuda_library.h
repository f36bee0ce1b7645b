/* cuda_library.h: libraries of CUDA's that the program loads by name while it runs; it links none of them. They stay
 * loaded, since they are not made for unloading. */
#ifndef TK_CUDA_LIBRARY_H
#define TK_CUDA_LIBRARY_H
#include <stdbool.h>
#include <stddef.h>

/* Why a library is missing, in one text; `why` may be NULL. */
void tk_cuda_say(char *why, size_t bytes, const char *what, const char *which);

/* On the loader's path, then in the toolkit that the program was built with. NULL name: the program itself has the
 * functions, as in tests. NULL: it is missing, and `why` says so. */
void *tk_cuda_library(const char *name, char *why, size_t bytes);
/* Sets *function, a pointer to a function, to the one with this name. */
bool tk_cuda_find(void *library, const char *name, void *function, char *why, size_t bytes);
#endif
