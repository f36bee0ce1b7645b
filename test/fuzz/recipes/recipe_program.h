/* recipe_program.h: a random training graph before it is a model: values and nodes in arrays, elements drawn from a
 * seed instead of stored, so that a program is copied by an assignment and a smaller one is tried by leaving nodes out.
 * generate.c makes one, fz_render writes it as ONNX text in float or double, fz_shrink looks for the smallest one that
 * still fails. */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    FZ_VALUES = 900,
    FZ_NODES = 500,
    FZ_RANK = 6,
    FZ_INPUTS = 16,
    FZ_RESULTS = 3,
    FZ_GIVEN = 8,
    FZ_SYMBOLS = 4,
    FZ_ATTRS = 96
};

typedef enum fz_kind { FZ_FLOAT, FZ_INT, FZ_BOOL } fz_kind;

typedef struct fz_dim {
    int64_t size; /* when it runs */
    int symbol;   /* 0: the file says the size; > 0: fz_symbols[symbol - 1]; < 0: one that follows from others */
} fz_dim;

extern const char *const fz_symbols[FZ_SYMBOLS];

typedef struct fz_value {
    char from; /* 'x' graph input, 'w' initializer, 'c' initializer meant as a constant, 'v' result of `node` */
    fz_kind kind;
    int rank;
    fz_dim dims[FZ_RANK];
    double low, high;       /* drawn elements lie in [low, high); for results a bound of their size */
    double given[FZ_GIVEN]; /* 'c': the elements, if there are any */
    int n_given;
    int node;
    bool output;
} fz_value;

typedef struct fz_node {
    const char *op;          /* NULL: left out */
    char attrs[FZ_ATTRS];    /* as text; @ stands for the element type of floats: its name in "@ {", else its number */
    int in[FZ_INPUTS], n_in; /* -1: absent */
    int out[FZ_RESULTS], n_out;
} fz_node;

typedef struct fz_program {
    uint64_t seed;
    fz_value values[FZ_VALUES];
    fz_node nodes[FZ_NODES];
    int n_values, n_nodes, loss;
} fz_program;

/* The program of a seed: the same on every machine. generate.c */
void fz_generate(uint64_t seed, fz_program *out_program);

int64_t fz_count(const fz_value *value);
double fz_element(const fz_program *program, int value, int64_t index);
double fz_direction(uint64_t direction, int value, int64_t index); /* of a step through the weights: -1 to 1 */
bool fz_is_read(const fz_program *program, int value);             /* by a node or as an output */
int fz_live_nodes(const fz_program *program);

/* How a program is written. `noise`: every float result is multiplied with numbers about 1 + noise, drawn from
 * `noise_seed`: what rounding of that size does to the results. */
typedef struct fz_style {
    bool in_double;
    bool open; /* weights are inputs */
    double noise;
    uint64_t noise_seed;
} fz_style;
#define FZ_NOISE_NAME "noise" /* how the names of these factors begin */
bool fz_is_bound(const fz_program *program, int value, const fz_style *style); /* it is an input of what is written */
void fz_render(const fz_program *program, const fz_style *style, FILE *out);

/* Leaves out what `fails` does not need in order to return true. */
typedef bool (*fz_fails)(void *user, const fz_program *program);
void fz_shrink(fz_program *program, fz_fails fails, void *user);
#endif
