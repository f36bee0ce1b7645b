/* tempoc_footprint.h: what a run of a compiled graph will allocate, asked of the runtime. Of tempoc alone: here passes
 * and runtime meet. */
#ifndef TEMPOC_FOOTPRINT_H
#define TEMPOC_FOOTPRINT_H
#include "../../passes/pass.h"

/* A tc_pass_env's `footprint`; `user` is the tc_ctx, which is told nothing. tempoc_footprint.c */
bool tempoc_footprint(void *user, tc_model *model, tc_footprint *out_footprint);
#endif
