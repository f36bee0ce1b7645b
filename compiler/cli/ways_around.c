/* ways_around.c: looks an op up in ways_around.def. */
#include "ways_around.h"
#include <string.h>

static const struct {
    const char *domain, *ops, *way;
} ways[] = {
#define WAY(domain, ops, way) {domain, ops, way},
#include "ways_around.def"
#undef WAY
};

/* `op` is one of the words of `ops`; an empty list holds every op. */
static bool is_one_of(const char *op, const char *ops) {
    size_t n = strlen(op);
    for (const char *at = ops; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, op, n) == 0)
            return true;
        at += length;
    }
    return !*ops;
}

const char *tc_way_around(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(ways); i++)
        if (strcmp(ways[i].domain, node->domain) == 0 && is_one_of(node->op_type, ways[i].ops))
            return ways[i].way;
    return NULL;
}

void tc_hint_way_around(tc_ctx *ctx, const tc_node *node) {
    const char *way = tc_way_around(node);
    tc_hint(ctx, "%s",
            way ? way
                : "write the model with other ops; if no weight before this node is to learn, leave those weights out "
                  "(--freeze=GLOB)");
}
