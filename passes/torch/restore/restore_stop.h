/* restore_stop.h: shared parts of `restore` for stopped gradients: the names in calls, and the values of the file
 * that they mean. */
#ifndef TC_RESTORE_STOP_H
#define TC_RESTORE_STOP_H
#include "restore.h"

typedef struct tc_words { /* names in a call, without "%", once per occurrence */
    const char **names;
    size_t n;
} tc_words;

typedef struct tc_stops {
    tc_restore *r;
    tc_words *words;  /* by call */
    tc_map *call_of;  /* a node -> its tc_restore_call */
    tc_map *mentions; /* a name -> the number of the file's calls that read it, plus one if it is an output of the
                         program */
    tc_map *carries;  /* values that a gradient would pass on its way to a parameter if it were not stopped */
    bool lost;        /* some call reads a detached value that is not in the file */
} tc_stops;

/* "detach_2", and "detach_" of the operation in place. */
bool tc_is_detach(const char *name);
/* The call that the node came from; NULL: none, or `node` is NULL. */
const tc_restore_call *tc_call_of(const tc_stops *s, const tc_node *node);
const tc_words *tc_words_of(const tc_stops *s, const tc_restore_call *call);
/* A result of a call that is in the file, or was folded into an initializer, or an input of the program. */
bool tc_is_present(const tc_stops *s, const char *name);
/* Some name in the call means the value. */
bool tc_is_named(const tc_stops *s, const tc_restore_call *call, const tc_value *value);
/* Neither a constant nor a shape. */
bool tc_may_carry(const tc_value *value);
/* The value is internal to its call. */
bool tc_is_inside(const tc_stops *s, const tc_value *value);

/* Gives calls copies of the nodes that were merged with those of others. restore_merged.c */
void tc_part_calls(tc_stops *s);
/* Calls that were merged as a whole, and detached values that left no node. restore_lost_stop.c */
tc_status tc_restore_lost_stops(tc_stops *s);
/* Values that PyTorch computed without gradients and that pass some, as far as stack traces show: a warning. After
 * all stops. restore_no_grad.c */
void tc_tell_no_grad(const tc_stops *s);
#endif
