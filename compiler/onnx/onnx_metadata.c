/* onnx_metadata.c: the pairs of text (metadata_props) that a file has for its graph, nodes and values. */
#include "onnx.h"
#include "onnx_msg.h"

static const char *find(Onnx__StringStringEntryProto *const *pairs, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(tc_onnx_text(pairs[i]->key), key) == 0)
            return tc_onnx_text(pairs[i]->value);
    return NULL;
}

const char *tc_node_metadata(const tc_node *node, const char *key) {
    const Onnx__NodeProto *proto = node->origin;
    return proto ? find(proto->metadata_props, proto->n_metadata_props, key) : NULL;
}

const char *tc_graph_metadata(const tc_graph *graph, const char *key) {
    const tc_graph_origin *origin = graph->origin;
    const Onnx__GraphProto *proto = origin ? origin->proto : NULL;
    return proto ? find(proto->metadata_props, proto->n_metadata_props, key) : NULL;
}

const char *tc_value_metadata(const tc_value *value, const char *key) {
    const tc_value_origin *origin = value->origin;
    if (!origin)
        return NULL;
    Onnx__ValueInfoProto *const entries[] = {origin->info, origin->input, origin->output};
    const char *found = NULL;
    for (size_t i = 0; !found && i < TC_COUNT(entries); i++)
        if (entries[i])
            found = find(entries[i]->metadata_props, entries[i]->n_metadata_props, key);
    return found;
}
