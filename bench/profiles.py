"""Reads the traces that `tempo-run --profile` writes: the time of each run, time, bytes and floating-point operations
by op, and the matrix products of a step. Shapes are in the trace; which operand a Gemm transposes is in the model.
"""
import collections
import json
import math
import re

SIZES = {"float": 4, "double": 8, "float16": 2, "bfloat16": 2, "bool": 1, "int8": 1, "uint8": 1, "int32": 4, "int64": 8}
CACHED = 8 << 20  # bytes; what machine.c's rate of the cache is measured with


def events(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)["traceEvents"]


def runs(path):
    """The events of each run: a run ends where the first node comes again."""
    found = []
    for e in events(path):
        if not found or (e["name"], e["cat"]) == (found[0][0]["name"], found[0][0]["cat"]):
            found.append([])
        found[-1].append(e)
    return found


def run_seconds(path):
    return [1e-6 * (run[-1]["ts"] + run[-1]["dur"] - run[0]["ts"]) for run in runs(path)]


def shape(text):
    """'float[2,3]' to (4, [2, 3]): bytes of an element, dims; None where there is no operand."""
    match = re.fullmatch(r"(\w+)(?:\[([\d,]*)\])?", text)
    return (SIZES.get(match[1], 1), [int(d) for d in (match[2] or "").split(",") if d]) if match else None


def shapes(e):
    operands = re.findall(r"[^,\[\s]+(?:\[[\d,]*\])?|(?<=, )(?=,|$)", e["args"]["operands"])
    return [shape(t) for t in operands], shape(e["args"]["result"])


def base_op(e):
    """Functions are named by the operands they take: DotProductAttention_b1s1 is DotProductAttention."""
    return e["args"]["op"].split("_")[0]


def node_products(e, transposed):
    """(batch, m, n, k, transA, transB) of each matrix product that a node is, or holds."""
    op = base_op(e)
    if op not in ("MatMul", "Gemm", "DotProductAttention", "DotProductAttentionGrad"):
        return []
    operands, result = shapes(e)
    if op == "Gemm":
        (_, a), (m, n) = operands[0], result[1]
        ta, tb = transposed.get(e["name"], (0, 0))
        return [(1, m, n, a[0] if ta else a[1], ta, tb)]
    if op == "MatMul":
        a, b, out = operands[0][1], operands[1][1], result[1]
        if len(b) == 2:
            return [(1, math.prod(a[:-1]), out[-1], a[-1], *transposed.get(e["name"], (0, 0)))]
        return [(math.prod(out[:-2]), out[-2], out[-1], a[-1], 0, 0)]
    q, kt, v = (o[1] for o in operands[op.endswith("Grad"):][:3])
    s, d, t, e = q[-2], q[-1], kt[-1], v[-1]
    heads = math.prod(q[:-2])
    if op == "DotProductAttention":
        return [(heads, s, t, d, 0, 0), (heads, s, e, t, 0, 0)]
    return [(heads, s, t, e, 0, 1), (heads, s, d, t, 0, 1), (heads, d, t, s, 1, 0), (heads, t, e, s, 1, 0)]


def transposes(model_path):
    """Which operands products read transposed, by node: a Gemm as it says, a MatMul where a Transpose of a weight
    stands before it, which tempo-run reads as it lies."""
    import onnx
    nodes = onnx.load(model_path, load_external_data=False).graph.node
    flags = lambda n: {a.name: a.i for a in n.attribute}
    made = {name: n for n in nodes for name in n.output}
    of_weight = lambda n: n is not None and n.op_type == "Transpose" and n.input[0] not in made
    found = {n.name: (flags(n).get("transA", 0), flags(n).get("transB", 0)) for n in nodes if n.op_type == "Gemm"}
    found.update({n.name: (0, 1) for n in nodes if n.op_type == "MatMul" and of_weight(made.get(n.input[1]))})
    return found


def products(path, model_path):
    transposed = transposes(model_path)
    return [p for e in runs(path)[0] for p in node_products(e, transposed)]


def by_op(path, model_path, limits):
    """For each op, slowest first: nodes, seconds (of each node the least of its runs), flops of products, bytes of
    operands and result, and the seconds that the machine's limits allow: its rate of products, and its rate of memory,
    or of its cache where a node's bytes fit there."""
    transposed, least = transposes(model_path), collections.defaultdict(list)
    for run in runs(path):
        for i, e in enumerate(run):
            least[i].append(e)
    ops = {}
    for same in least.values():
        e = min(same, key=lambda event: event["dur"])
        operands, result = shapes(e)
        row = ops.setdefault(base_op(e),
                             {"op": base_op(e), "nodes": 0, "seconds": 0.0, "flops": 0, "bytes": 0, "bound": 0.0})
        row["nodes"] += 1
        row["seconds"] += 1e-6 * e["dur"]
        flops = sum(2 * batch * m * n * k for batch, m, n, k, _, _ in node_products(e, transposed))
        moved = sum(size * math.prod(dims) for size, dims in filter(None, operands + [result]))
        row["flops"] += flops
        row["bytes"] += moved
        row["bound"] += max(flops / limits["flops"], moved / limits["cache" if moved <= CACHED else "memory"])
    return sorted(ops.values(), key=lambda row: -row["seconds"])
