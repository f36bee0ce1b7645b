"""Reading and writing cost time and memory linear in the file's size: each kind of file is doubled twice."""
import random
from io_common import *

folder = tempfile.mkdtemp()
QUIET = 8 << 20  # bytes below which a ratio says nothing


def chain(n):
    nodes = [h.make_node("Relu", [f"v{i}" if i else "X"], [f"v{i + 1}" if i + 1 < n else "Y"], name=f"n{i}")
             for i in range(n)]
    return model(nodes).SerializeToString()


def wide(n):
    nodes = [h.make_node("Relu", ["X"], [f"v{i}"])
             for i in range(n)] + [h.make_node("Sum", [f"v{i}" for i in range(n)], ["Y"])]
    return model(nodes).SerializeToString()


def wires(n):
    """Refused, but only after a look at all of it."""
    return field(1, 10) + field(7, field(5, field(7, b"\1" * n)) + field(1, b""))


def attributes(n):
    node = h.make_node("Relu", ["X"], ["Y"])
    node.attribute.extend(onnx.AttributeProto(name=f"a{i}", type=onnx.AttributeProto.INT, i=i) for i in range(n))
    return model([node]).SerializeToString()


def opsets(n):
    m = model([h.make_node("F", ["X"], ["Y"], domain=f"d{n - 1}")], opsets=[(f"d{i}", 1) for i in range(n)])
    m.graph.node.extend(h.make_node("F", ["X"], [f"o{i}"], domain=f"d{i}") for i in range(n))
    return m.SerializeToString()


def functions(n):
    fs = [h.make_function("l", f"f{i}", ["a"], ["b"],
                          [h.make_node(f"f{i + 1}" if i + 1 < n else "g", ["a"], ["b"], domain="l")],
                          [h.make_opsetid("l", 1)]) for i in range(n)]
    return model([h.make_node("f0", ["X"], ["Y"], domain="l")], opsets=[("l", 1)], functions=fs).SerializeToString()


def cycle(n):
    """Refused after a walk over the whole cycle."""
    nodes = [h.make_node("Relu", [f"v{(i - 1) % n}"], [f"v{i}"]) for i in range(n)]
    return model(nodes + [h.make_node("Relu", ["v0"], ["Y"])]).SerializeToString()


def constants(n):
    w = T(name="W", data_type=T.FLOAT, dims=[n], float_data=[0.5] * n)
    return model([h.make_node("Identity", ["W"], ["Y"])], initializers=[w]).SerializeToString()


for make, n in ((chain, 10000), (wide, 10000), (wires, 1000000), (attributes, 10000), (opsets, 10000),
                    (functions, 3000), (cycle, 10000),
                (constants, 500000)):
    sizes, seconds, peaks = [], [], []
    for k in (1, 2, 4):
        data = make(n * k)
        path = os.path.join(folder, "m.onnx")
        write(path, data)
        runs = [run("trip", path, os.path.join(folder, "out.onnx")) for _ in range(2)]
        check(runs[0].code in (0, 2, 4), make.__name__, runs[0].code, runs[0].err[:200])
        sizes.append(len(data))
        seconds.append(min(r.seconds for r in runs))
        peaks.append(min(r.peak for r in runs))
    figures = [f"{s >> 10} KiB: {t:.3f} s, {p >> 10} KiB" for s, t, p in zip(sizes, seconds, peaks)]
    print(make.__name__, "; ".join(figures))
    # Four times the size: a quadratic cost would be sixteen times.
    check(seconds[2] < 7 * seconds[0] + 0.05, make.__name__, "time", *figures)
    check(peaks[2] < 5 * max(peaks[0], QUIET), make.__name__, "memory", *figures)
finish()
