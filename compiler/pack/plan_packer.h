/* plan_packer.h: a packing under construction: the best one so far, and the ways to a better one. Of plan_pack.c,
 * plan_orders.c, plan_improve.c, plan_eject.c and plan_fit.c. */
#ifndef TC_PLAN_PACKER_H
#define TC_PLAN_PACKER_H
#include "plan_spans.h"
#include "plan_units.h"

typedef struct tc_packer {
    tc_plan_problem *problem;
    tc_plan_units units;
    tc_spans spans;
    uint32_t *step;    /* [n_ops + 2]: operation -> step of the tree: those at which something begins */
    uint32_t *order;   /* [n]: units in the order of placing, those without bytes left out */
    uint32_t *kept;    /* [n]: the best order so far */
    uint64_t *offsets; /* [n]: of the attempt */
    uint64_t *best_offsets;
    bool *best_taken; /* [n_choices] */
    uint32_t *rests;  /* [n]: the move before which a unit is not raised again */
    uint32_t n_order, n_steps;
    uint64_t best;           /* bytes; UINT64_MAX: none yet */
    uint64_t bound;          /* no packing needs less */
    uint64_t enough;         /* no packing need be better */
    uint64_t missing;        /* with the choices of the best packing there is none of so many bytes */
    uint64_t limit;          /* of the work */
    uint64_t random, thrown; /* thrown: of plan_eject.c; the other searches are the same without it */
    uint32_t n_moves, n_rounds;
    tc_fit fit, best_fit;
} tc_packer;

/* Places all in the order, the first `same` of them where the best packing has them. *out_top: the bytes, or UINT64_MAX
 * when they are more than `most` or there is a packing already and the work is done. False: out of memory.
 * plan_pack.c */
bool tc_packer_place(tc_packer *p, uint32_t same, uint64_t most, uint64_t *out_top);
/* The attempt in `offsets` becomes the best packing, of so many bytes. plan_pack.c */
void tc_packer_keep(tc_packer *p, uint64_t bytes);
/* As tc_packer_keep, of places that follow from no order: the order is the one from the bottom up. False: out of
 * memory. plan_fit.c */
bool tc_packer_keep_places(tc_packer *p);
/* Takes the choices of the best packing again. plan_pack.c */
void tc_packer_restore(tc_packer *p);
/* A number from 0 to below - 1. plan_pack.c */
uint32_t tc_packer_draw(tc_packer *p, uint32_t below);

/* All false where memory is out. */
/* One after the other in the tightest or lowest gap, in several orders. `peak`: an operation at which most is live.
 * plan_orders.c */
bool tc_packer_try_orders(tc_packer *p, uint32_t peak);
/* Changes the order where the best packing fails, until the work is `until`. plan_improve.c */
bool tc_packer_improve(tc_packer *p, uint64_t until);
/* Searches for places below fewer and fewer bytes by ejection, until the work is `until`. plan_eject.c */
bool tc_packer_eject(tc_packer *p, uint64_t until);
/* Searches below fewer and fewer bytes, until the work is `until`. plan_fit.c */
bool tc_packer_fit(tc_packer *p, uint64_t until);
#endif
