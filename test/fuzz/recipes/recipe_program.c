/* recipe_program.c: elements, ONNX text and smaller versions of a program. */
#include "recipe_program.h"
#include "kernels/common/philox.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const fz_symbols[FZ_SYMBOLS] = {"B", "S", "T", "U"};

int64_t fz_count(const fz_value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->rank; i++)
        count *= value->dims[i].size;
    return count;
}

static double uniform(uint64_t seed, int value, int64_t index) {
    uint32_t words[4];
    tk_draw_block(&(tk_draw){seed, (uint32_t)value, 0}, (uint64_t)index, words);
    return (double)tk_uniform(words[0]);
}

/* Floats are multiples of 2^-16, the same number in float and double. The first of each row of booleans is true: masks
 * leave a key to see. */
double fz_element(const fz_program *program, int value, int64_t index) {
    const fz_value *v = &program->values[value];
    double u = uniform(program->seed, value, index), drawn = v->low + (v->high - v->low) * u;
    int64_t row = v->rank > 0 ? v->dims[v->rank - 1].size : 1;
    if (v->n_given > 0)
        return v->given[index];
    switch (v->kind) {
    case FZ_FLOAT: return floor(drawn * 0x1p16) * 0x1p-16;
    case FZ_INT: return floor(drawn);
    case FZ_BOOL: return index % row == 0 || u < 0.7;
    }
    return 0;
}

double fz_direction(uint64_t direction, int value, int64_t index) { return 2 * uniform(direction, value, index) - 1; }

bool fz_is_read(const fz_program *program, int value) {
    for (int n = 0; n < program->n_nodes; n++)
        for (int i = 0; program->nodes[n].op && i < program->nodes[n].n_in; i++)
            if (program->nodes[n].in[i] == value)
                return true;
    return program->values[value].output;
}

int fz_live_nodes(const fz_program *program) {
    int live = 0;
    for (int n = 0; n < program->n_nodes; n++)
        live += program->nodes[n].op != NULL;
    return live;
}

/* --- as text ---------------------------------------------------------------------------------- */

static const char *type_name(fz_kind kind, const fz_style *style) {
    return kind == FZ_FLOAT ? style->in_double ? "double" : "float" : kind == FZ_INT ? "int64" : "bool";
}

static void print_type(const fz_value *v, const fz_style *style, bool concrete, FILE *out) {
    fputs(type_name(v->kind, style), out);
    for (int i = 0; i < v->rank; i++) {
        int symbol = concrete ? 0 : v->dims[i].symbol;
        fputc(i ? ',' : '[', out);
        if (symbol == 0)
            fprintf(out, "%" PRId64, v->dims[i].size);
        else
            fputs(symbol > 0 ? fz_symbols[symbol - 1] : "?", out);
    }
    if (v->rank > 0)
        fputc(']', out);
}

static void print_number(double value, fz_kind kind, FILE *out) {
    if (isinf(value))
        fputs(value < 0 ? "-inf" : "inf", out);
    else if (kind == FZ_FLOAT)
        fprintf(out, "%.17g", value);
    else
        fprintf(out, "%.0f", value);
}

static void print_initializer(const fz_program *p, int value, const fz_style *style, FILE *out) {
    const fz_value *v = &p->values[value];
    print_type(v, style, true, out);
    fprintf(out, " %c%d = {", v->from, value);
    for (int64_t i = 0; i < fz_count(v); i++) {
        fputs(i ? ", " : "", out);
        print_number(fz_element(p, value, i), v->kind, out);
    }
    fputc('}', out);
}

/* The factors that stand for the rounding of a result: each element's own, or with an odd seed one for all, as where a
 * function is approximated a little too low everywhere, whose errors add up in sums. */
static void print_noise(const fz_program *p, int value, const fz_style *style, FILE *out) {
    print_type(&p->values[value], style, true, out);
    fprintf(out, " " FZ_NOISE_NAME "%d = {", value);
    bool shared = style->noise_seed % 2 == 1;
    for (int64_t i = 0; i < fz_count(&p->values[value]); i++)
        fprintf(out, "%s%.17g", i ? ", " : "",
                1 + style->noise * (2 * uniform(style->noise_seed, value, shared ? 0 : i) - 1));
    fputc('}', out);
}

static bool is_noisy(const fz_value *v, const fz_style *style) {
    return style->noise > 0 && v->from == 'v' && v->kind == FZ_FLOAT;
}

static void print_attrs(const char *attrs, const fz_style *style, FILE *out) {
    if (*attrs == '\0')
        return;
    fputs("<", out);
    for (const char *c = attrs; *c; c++)
        if (*c != '@')
            fputc(*c, out);
        else if (strncmp(c, "@ {", 3) == 0)
            fputs(type_name(FZ_FLOAT, style), out);
        else
            fputs(style->in_double ? "11" : "1", out);
    fputs("> ", out);
}

static void print_node(const fz_program *p, const fz_node *node, const fz_style *style, FILE *out) {
    fputs("  ", out);
    for (int i = 0; i < node->n_out; i++)
        fprintf(out, "%sv%d%s", i ? ", " : "", node->out[i], is_noisy(&p->values[node->out[i]], style) ? "_raw" : "");
    fprintf(out, " = %s ", node->op);
    print_attrs(node->attrs, style, out);
    fputc('(', out);
    for (int i = 0; i < node->n_in; i++) {
        fputs(i ? ", " : "", out);
        if (node->in[i] >= 0)
            fprintf(out, "%c%d", p->values[node->in[i]].from, node->in[i]);
    }
    fputs(")\n", out);
    for (int i = 0; i < node->n_out; i++)
        if (is_noisy(&p->values[node->out[i]], style))
            fprintf(out, "  v%d = Mul (v%d_raw, " FZ_NOISE_NAME "%d)\n", node->out[i], node->out[i], node->out[i]);
}

static bool is_there(const fz_program *p, int value) {
    const fz_value *v = &p->values[value];
    return v->from != 'v' || p->nodes[v->node].op;
}

/* The loss first: it is then the first scalar, whatever else is an output. */
static void print_outputs(const fz_program *p, const fz_style *style, FILE *out) {
    print_type(&p->values[p->loss], style, false, out);
    fprintf(out, " v%d", p->loss);
    for (int i = 0; i < p->n_values; i++)
        if (p->values[i].output && i != p->loss) {
            fputs(", ", out);
            print_type(&p->values[i], style, false, out);
            fprintf(out, " v%d", i);
        }
}

bool fz_is_bound(const fz_program *p, int value, const fz_style *style) {
    char from = p->values[value].from;
    return (from == 'x' || (from == 'w' && style->open)) && fz_is_read(p, value);
}

void fz_render(const fz_program *p, const fz_style *style, FILE *out) {
    const char *between = "";
    fputs("<ir_version: 10, opset_import: [\"\" : 21]>\nfuzz (", out);
    for (int i = 0; i < p->n_values; i++)
        if (fz_is_bound(p, i, style)) {
            fputs(between, out);
            print_type(&p->values[i], style, false, out);
            fprintf(out, " %c%d", p->values[i].from, i);
            between = ", ";
        }
    fputs(") => (", out);
    print_outputs(p, style, out);
    fputs(")\n<", out);
    between = "";
    for (int i = 0; i < p->n_values; i++) {
        const fz_value *v = &p->values[i];
        bool noisy = is_noisy(v, style) && is_there(p, i);
        if (!noisy && (v->from == 'v' || fz_is_bound(p, i, style) || !fz_is_read(p, i)))
            continue;
        fputs(between, out);
        (noisy ? print_noise : print_initializer)(p, i, style, out);
        between = ",\n ";
    }
    fputs("> {\n", out);
    for (int n = 0; n < p->n_nodes; n++)
        if (p->nodes[n].op)
            print_node(p, &p->nodes[n], style, out);
    fputs("}\n", out);
}

/* --- smaller ---------------------------------------------------------------------------------- */

static void drop_dead(fz_program *p) {
    for (int n = p->n_nodes; n-- > 0;) {
        bool read = false;
        for (int i = 0; p->nodes[n].op && i < p->nodes[n].n_out; i++)
            read |= fz_is_read(p, p->nodes[n].out[i]);
        if (!read)
            p->nodes[n].op = NULL;
    }
}

static bool same_type(const fz_value *a, const fz_value *b) {
    bool same = a->kind == b->kind && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i].size == b->dims[i].size && a->dims[i].symbol == b->dims[i].symbol;
    return same;
}

static void replace(fz_program *p, int from, int to) {
    for (int n = 0; n < p->n_nodes; n++)
        for (int i = 0; i < p->nodes[n].n_in; i++)
            if (p->nodes[n].in[i] == from)
                p->nodes[n].in[i] = to;
}

/* The node's results become inputs of the graph or weights. */
static bool cut_off(fz_program *p, int node) {
    fz_node *n = &p->nodes[node];
    for (int i = 0; i < n->n_out; i++) {
        fz_value *v = &p->values[n->out[i]];
        if (v->kind == FZ_INT || v->output)
            return false;
        v->from = 'w';
        for (int d = 0; d < v->rank; d++)
            if (v->dims[d].symbol != 0)
                v->from = 'x';
        if (v->kind == FZ_BOOL || v->rank == 0)
            v->from = 'x';
        v->low = -1;
        v->high = 1;
    }
    n->op = NULL;
    return true;
}

static bool keep_if_fails(fz_program *p, fz_program *smaller, fz_fails fails, void *user) {
    drop_dead(smaller);
    if (!fails(user, smaller))
        return false;
    *p = *smaller;
    return true;
}

static bool shrink_node(fz_program *p, fz_program *smaller, int node, fz_fails fails, void *user) {
    const fz_node *n = &p->nodes[node];
    for (int i = 0; n->n_out == 1 && n->out[0] != p->loss && i < n->n_in; i++) {
        if (n->in[i] < 0 || !same_type(&p->values[n->in[i]], &p->values[n->out[0]]) || p->values[n->out[0]].output)
            continue;
        *smaller = *p;
        replace(smaller, n->out[0], n->in[i]);
        if (keep_if_fails(p, smaller, fails, user))
            return true;
    }
    for (int i = 0; n->out[0] == p->loss && n->n_in > 1 && i < n->n_in; i++) { /* a term of the sum */
        *smaller = *p;
        fz_node *sum = &smaller->nodes[node];
        memmove(&sum->in[i], &sum->in[i + 1], sizeof sum->in[0] * (size_t)(sum->n_in - i - 1));
        sum->n_in--;
        if (keep_if_fails(p, smaller, fails, user))
            return true;
    }
    *smaller = *p;
    return n->out[0] != p->loss && cut_off(smaller, node) && keep_if_fails(p, smaller, fails, user);
}

void fz_shrink(fz_program *p, fz_fails fails, void *user) {
    static fz_program smaller;
    for (bool progress = true; progress;) {
        progress = false;
        for (int i = 0; i < p->n_values; i++)
            if (p->values[i].output && i != p->loss) {
                smaller = *p;
                smaller.values[i].output = false;
                progress |= keep_if_fails(p, &smaller, fails, user);
            }
        for (int n = p->n_nodes; n-- > 0;)
            if (p->nodes[n].op)
                progress |= shrink_node(p, &smaller, n, fails, user);
    }
}
