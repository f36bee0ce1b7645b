/* choices.c: the two sources of an instance of a rule: answers that are enumerated one by one, and dice (splitmix64,
 * Steele et al. 2014), which give the same draws for the same seed everywhere. */
#include "check.h"
#include <math.h>

#define TWO_PI 6.283185307179586

uint64_t rule_dice_next(rule_dice *dice) {
    uint64_t z = dice->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

unsigned rule_dice_below(rule_dice *dice, unsigned n) { return (unsigned)((rule_dice_next(dice) >> 32) * n >> 32); }
double rule_dice_unit(rule_dice *dice) { return (double)(rule_dice_next(dice) >> 11) * 0x1p-53; }

double rule_dice_normal(rule_dice *dice) { /* The Box-Muller transform */
    double u = 1 - rule_dice_unit(dice), v = rule_dice_unit(dice);
    return sqrt(-2 * log(u)) * cos(TWO_PI * v);
}

unsigned rule_choose(rule_choices *c, unsigned n, const char *what) {
    if (n < 2 || c->n == RULE_MAX_CHOICES)
        return 0;
    uint16_t at = c->n++;
    if (at >= c->given)
        c->pick[at] = 0;
    c->of[at] = (uint8_t)n;
    c->what[at] = what;
    return c->pick[at];
}

bool rule_choices_next(rule_choices *c) {
    while (c->n > 0 && c->pick[c->n - 1] + 1 == c->of[c->n - 1])
        c->n--;
    if (c->n == 0)
        return false;
    c->pick[c->n - 1]++;
    c->given = c->n;
    c->n = 0;
    return true;
}

const char *rule_choices_text(tc_arena *arena, const rule_choices *c) {
    const char *text = c->n ? "" : "-";
    for (uint16_t i = 0; i < c->n; i++)
        text = tc_arena_printf(arena, "%s%s%s: %u of %u", text, i ? ", " : "", c->what[i], c->pick[i] + 1u, c->of[i]);
    return text;
}
