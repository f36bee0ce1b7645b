/* reproducer.h: the file written when a pass meets a bug. */
#ifndef TC_REPRODUCER_H
#define TC_REPRODUCER_H
#include "passes/pass/pass.h"

#define TC_REPRODUCER "reproducer.onnxt" /* in the current folder */

/* Writes the graph as it is after the passes `done` (comma-separated), with a RUN line that runs the passes `left`,
 * and a note. Never overwrites the model that was read. env->reread must be set. */
void tc_reproducer_write(tc_pass_env *env, const char *done, const char *left);
#endif
