/* unfold_program.h: the calls of a file, for finding operations that the exporter lost or merged: the names that
 * they read, and whether the file has them. */
#ifndef TC_UNFOLD_PROGRAM_H
#define TC_UNFOLD_PROGRAM_H
#include "passes/torch/metadata/metadata.h"
#include "unfold.h"

typedef struct unfold_reads {
    const char *result; /* of the call */
    size_t users;       /* calls of the program that read the result */
    const char **names; /* without % */
    size_t n;
} unfold_reads;

typedef struct unfold_program {
    tc_unfold *u;
    const tc_torch_signature *signature;
    const tc_flow *flow;
    const tc_value *loss;
    tc_map *made;    /* names that the file has: results of calls and nodes, inputs, initializers */
    tc_map *by_node; /* -> unfold_reads */
    tc_map *read;    /* names that calls read */
    tc_map *other;   /* parameters that a module reads through another one: ties */
    tc_map *missing; /* names of missing parameters */
} unfold_program;

/* The result has the elements of its operand, or no floats. unfold_lost.c */
bool tc_unfold_is_view(const char *name);
/* If the other operand is 0 or 1, the result equals an operand of its call, and the exporter drops the call.
 * unfold_lost.c */
bool tc_unfold_may_be_dropped(const char *name);
/* Looks for calls that were merged with calls on other parameters: an error, or a warning if the file does not show
 * the others. Merged results then count as present. `missing`: the text of all missing parameters. unfold_merged.c */
void tc_unfold_find_merged(const unfold_program *p, const tc_findings *missing);
#endif
