"""cli.py TEMPO_RUN: tempo-run's command line: inputs that are missing, wrong or too many; seeds; tables; traces; test
cases."""
import csv
import os

import numpy as np
import onnx
from onnx import numpy_helper

from programs import check, finish, json_of, path, write
from tool import model, run

ADD = """g (float[n,2] x, float[2] b) => (float[n,2] y, float loss) {
  y = Add (x, b) loss = ReduceSum <keepdims = 0> (y) }"""


def inputs(**arrays):
    np.savez(path("in.npz"), **arrays)
    return path("in.npz")


def mistakes():
    name = model("add.onnxt", ADD)
    x, b = np.ones((3, 2), "f4"), np.ones(2, "f4")
    run(name, "--inputs", inputs(x=x), code=2, says=("'b'", "float[2]", "missing"))
    run(name, code=2, says=("'x'", "missing"))
    run(name, "--inputs", inputs(x=x.astype("f8"), b=b), code=2, says=("'x'", "double", "float[n,2]"))
    run(name, "--inputs", inputs(x=x, b=np.ones(3, "f4")), code=2, says=("'b'", "float[3]", "--dim batch=3"))
    run(name, "--inputs", inputs(x=np.ones((3, 2, 1), "f4"), b=b), code=2, says=("'x'", "float[3,2,1]"))
    run(name, "--inputs", inputs(x=x, b=b, extra=b), says=("note", "'extra'", "ignored"))
    if "emulated" not in run("--list-devices"):  # there is one in builds with -Dcuda=emulated
        run(name, "--inputs", inputs(x=x, b=b), "--device", "cuda", code=3, says=("CUDA",))
    run(name, "--inputs", inputs(x=x, b=b), "--device", "tpu", code=64, says=("tpu",))
    run(name, "--inputs", inputs(x=x, b=b), "--device", "cpu:0", code=64, says=("cpu:0",))
    run(name, "--inputs", inputs(x=x, b=b), "--tf32", code=3, says=("TF32", "'cpu'"))
    run(name, "--inputs", inputs(x=x, b=b), "--products", says=("no library chose",))
    run(name, "--rank", "0/2", "--group", path("g"), code=64, says=("--rank", "--group", "--average"))
    run(name, "--group", path("g"), code=64, says=("--rank", "--group", "--average"))
    run("--test-data", path("."), "--rank", "0/2", "--group", path("g"), "--average", "y", code=64,
        says=("--test-data",))
    for rank in ("2/2", "-1/2", "1", "1/2x", "a/b"):
        run(name, f"--rank={rank}", "--group", path("g"), "--average", "y", code=64, says=(f"--rank={rank}:", "R/N"))
    run(name, "--inputs", inputs(x=x, b=b), "--rank", "0/2", "--group", path("g"), "--average", "y", code=3,
        says=("'cpu'", "train together"))
    run(name, "--inputs", inputs(x=x, b=b), "--average", "q*", code=64, says=("--average=q*",))
    run(name, "--patience", "0", code=64, says=("--patience",))
    run(name, "--keep", "y", code=64, says=("--keep=y", "OUT=IN"))
    run(name, "--keep", "y=z", code=64, says=("no input 'z'",))
    run(name, "--seed", "many", code=64, says=("--seed",))
    run(name, "--dropout-rng", "other", code=64, says=("--dropout-rng=other", "tempo or ort"))
    run(name, "--repeat", "0", code=64, says=("--repeat",))
    run(name, "--imputs", "x", code=64, says=("--inputs",))
    run(code=64, says=("no model",))
    run(path("none.onnx"), code=5, says=("none.onnx",))
    missing = model("missing.onnxt",
                    'g (float[n,n] x) => (float[n,n] y) { ["the node"] y = MeanVarianceNormalization (x) }')
    run(missing, "--inputs", inputs(x=np.eye(2, dtype="f4")), code=3,
        says=("MeanVarianceNormalization", "the node", "kernel"))
    gather = model("gather.onnxt", 'g (float[n] x, int64[k] i) => (float[k] y) { ["pick"] y = Gather (x, i) }')
    run(gather, "--inputs", inputs(x=b, i=np.array([0, 7])), code=2, says=("pick", "0 to 7", "indices go up to"))
    run(gather, "--inputs", inputs(x=b, i=np.array([-3])), code=2, says=("pick", "out of range"))


def help_and_tables():
    run("--help", says=("--inputs", "--threads", "examples", "Exit codes", "--help=all"))
    run("--version", says=("tempo-run",))
    run("--list-devices", says=("cpu",))
    run("--list-kernels", says=("Gather:", "ai.tempo.GatherGrad:", "Softmax: float float16 double bfloat16"))
    name = model("add.onnxt", ADD)
    file = inputs(x=np.ones((3, 2), "f4"), b=np.ones(2, "f4"))
    run(name, "--inputs", file, says=("loss  float  12", "y     float[3,2]"))
    run(name, "--inputs", file, "--memory", says=("parameters", "arena", "lower bound", "live at the peak"))
    checked = run(name, "--inputs", file, "--check-memory", says=("loss  float  12", "y     float[3,2]"))
    check(checked == run(name, "--inputs", file), "--check-memory prints something else")
    run(name, "--inputs", file, "--repeat", "5", says=("5 runs: min", "median", "max"))
    run(name, "--inputs", file, "--profile", path("trace.json"), "--repeat", "2")
    events = json_of(path("trace.json"))["traceEvents"]
    check([e["cat"] for e in events] == ["Add", "ReduceSum"] * 2, "a trace of two runs")
    check(events[0]["args"] == {"op": "Add", "operands": "float[3,2], float[2]", "result": "float[3,2]"},
          "a trace tells types")
    check(all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(events, events[1:])), "events do not overlap")
    times_of_nodes()


def times_of_nodes():
    """--profile=FILE.csv: a row for each launch, whatever nodes are called."""
    name = model("named.onnxt", """g (float[3,2] x, float[2] b) => (float loss)
{ ["a \\"comma\\", and quotes"] y = Add (x, b) ["the sum"] loss = ReduceSum <keepdims = 0> (y) }""")
    file = inputs(x=np.ones((3, 2), "f4"), b=np.ones(2, "f4"))
    run(name, "--inputs", file, "--profile", path("times.csv"), "--repeat", "3")
    with open(path("times.csv"), encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))
    check(rows[0] == ["node", "op", "operands", "result", "runs", "nanoseconds"], "a table has a head")
    check([r[:5] for r in rows[1:]] == [
        ['a "comma", and quotes', "Add", "float[3,2], float[2]", "float[3,2]", "3"],
        ["the sum", "ReduceSum", "float[3,2]", "float[]", "3"]], f"a table of launches: {rows}")
    check(all(int(r[5]) > 0 for r in rows[1:]), "launches take time")


def defaults():
    """An initializer of an input's name is its default; what is bound goes before it."""
    name = model("default.onnxt",
                 "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {10, 20}> { y = Mul (x, w) }")
    x = np.array([1, 2], "f4")
    for given, want in (({}, [10, 40]), ({"w": np.array([3, 3], "f4")}, [3, 6])):
        run(name, "--inputs", inputs(x=x, **given), "--outputs", path("out.npz"))
        with np.load(path("out.npz")) as out:
            check(out["y"].tolist() == want, f"default {given}")


def seeds():
    """--seed is the graph input tempo.seed, with step 0 in every run, where the inputs don't give it."""
    name = model("seed.onnxt",
                 'g (int64[2] "tempo.seed") => (int64[2] y) <int64[2] "tempo.seed" = {5, 6}> { y = Neg ("tempo.seed") '
                 '}')
    given = ("--inputs", inputs(**{"tempo.seed": np.array([8, 9])}))
    for arguments, want in (((), [5, 6]), (("--seed", "7"), [7, 0]), (("--seed", "0"), [0, 0]),
                            (("--seed", "7", "--repeat", "3"), [7, 0]),
                            (("--seed", str(2**64 - 1)), [-1, 0]), (given, [8, 9]), ((*given, "--seed", "7"), [8, 9])):
        run(name, *arguments, "--outputs", path("out.npz"))
        with np.load(path("out.npz")) as out:
            check(out["y"].tolist() == [-w for w in want], f"seed {arguments}: {out['y'].tolist()}")


def states():
    """--keep=OUT=IN: from run to run; the first one begins with what is bound, or a default."""
    name = model("sum.onnxt", "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {10, 20}> { y = Add (w, x) }")
    for given, want in (({}, [13, 26]), ({"w": np.array([1, 2], "f4")}, [4, 8])):
        run(name, "--inputs", inputs(x=np.array([1, 2], "f4"), **given), "--keep", "y=w", "--repeat", "3", "--outputs",
            path("out.npz"))
        with np.load(path("out.npz")) as out:
            check(out["y"].tolist() == want, f"state {given}: {out['y'].tolist()}")


def older_opsets():
    """A model of opset 11 is upgraded: Squeeze's axes were an attribute then."""
    node = onnx.helper.make_node("Squeeze", ["x"], ["y"], axes=[0])
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_tensor_value_info("x", 1, [1, "n"])],
                                   [onnx.helper.make_tensor_value_info("y", 1, ["n"])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=6),
              path("old.onnx"))
    run(path("old.onnx"), "--inputs", inputs(x=np.ones((1, 5), "f4")), says=("y  float[5]",))


def functions():
    """A model-local function without a kernel is run by its body."""
    with open(path("f.onnxt"), "w", encoding="utf-8") as file:
        file.write('<ir_version: 10, opset_import: ["" : 21, "own" : 1]>\n'
                   "g (float[n] x) => (float[n] y) { y = own.Twice <times = 3.0> (x) }\n"
                   '<domain: "own", opset_import: ["" : 21]>\n'
                   "Twice <times> (a) => (b) { t = Constant <value_float: float = @times> () b = Mul (a, t) }\n")
    run(path("f.onnxt"), "--inputs", inputs(x=np.array([2], "f4")), says=("y  float[1]  6",))


def external_data():
    """Weights beside the model, at an odd offset, are read where they are."""
    w = np.arange(6, dtype="f4")
    tensor = numpy_helper.from_array(w, "w")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g",
                                   [onnx.helper.make_tensor_value_info("x", 1, [6])],
                                   [onnx.helper.make_tensor_value_info("y", 1, [6])], [tensor])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    write(path("w.bin"), b"odd" + w.tobytes())
    t = made.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "3"), ("length", "24")):
        t.external_data.add(key=key, value=value)
    write(path("external.onnx"), made.SerializeToString())
    run(path("external.onnx"), "--inputs", inputs(x=np.ones(6, "f4")), "--outputs", path("out.npz"))
    with np.load(path("out.npz")) as out:
        check(out["y"].tolist() == (w + 1).tolist(), "external data")


def test_cases():
    """A right case, a wrong value, a wrong type, an op without kernel."""
    def case(name, op, out, **attrs):
        folder = path(f"cases/{name}/test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([onnx.helper.make_node(op, ["x"], ["y"], **attrs)], "g", [value("x", 1, [2])],
                                       [value("y", 1, [2])])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10),
                  path(f"cases/{name}/model.onnx"))
        for kind, array in (("input_0", np.array([1, -2], "f4")), ("output_0", out)):
            write(f"{folder}/{kind}.pb", numpy_helper.from_array(array).SerializeToString())

    case("right", "Neg", np.array([-1, 2.0001], "f4"))
    run("--test-data", path("cases"), says=("PASS right", "1 passed, 0 failed, 0 unsupported"))
    case("wrong", "Neg", np.array([-1, 2.01], "f4"))
    case("type", "Neg", np.array([-1, 2], "f8"))
    case("shape", "Neg", np.array([[-1, 2]], "f4"))
    case("none", "Bernoulli", np.array([-1, 2], "f4"))
    run("--test-data", path("cases"), code=1,
        says=("PASS right", "FAIL wrong: output 'y' element 1: got 2, expected 2.00", "FAIL type", "FAIL shape",
              "UNSUPPORTED none: ",
              "1 passed, 3 failed, 1 unsupported"))
    run("--test-data", path("cases/right"), says=("1 passed",))
    run("--test-data", path("cases/right/test_data_set_0"), code=2, says=("no test case",))


def random_numbers():
    """Without tempoc, too, random ops draw from --seed; of a type that is no float there is no kernel."""
    name = model("random.onnxt", """g (float[300] x) => (float[300] u, double[300] v, float[300] z, float[300] again) {
  u = RandomUniformLike <low = -2.0> (x) v = RandomUniform <shape = [300], dtype = 11> ()
  z = RandomNormalLike <mean = 5.0> (x) again = RandomUniformLike <low = -2.0> (x) }""")
    drawn = []
    for seed in "1", "1", "2":
        run(name, "--inputs", inputs(x=np.zeros(300, "f4")), "--seed", seed, "--outputs", path("out.npz"))
        with np.load(path("out.npz")) as out:
            drawn.append(dict(out))
    one, same, other = drawn
    check(all(np.array_equal(one[k], same[k]) and not np.any(one[k] == other[k]) for k in one), "draws of a seed")
    check(not np.any(one["u"] == one["again"]), "two nodes draw apart")
    check(-2 <= one["u"].min() < -1.8 and 0.8 < one["u"].max() < 1 and abs(one["u"].mean() + 0.5) < 0.25, "uniform")
    check(0 <= one["v"].min() and one["v"].max() < 1 and abs(one["z"].mean() - 5) < 0.3, "double, normal")
    name = model("no_random.onnxt", "g (int64[3] x) => (int64[3] u) { u = RandomUniformLike (x) }")
    run(name, "--inputs", inputs(x=np.zeros(3, "i8")), code=3, says=("RandomUniformLike", "kernel"))


def threads():
    """The same bytes at any number of threads."""
    name = model("big.onnxt",
                 "g (float[n,m] x) => (float[m,n] y, float s) { t = Tanh (x) y = Transpose (t) s = ReduceSum <keepdims "
                 "= 0> (y) }")
    file = inputs(x=np.random.default_rng(1).standard_normal((300, 257)).astype("f4"))
    results = []
    for n in ("1", "2", "5"):
        run(name, "--inputs", file, "--outputs", path("out.npz"), "--threads", n)
        results.append(open(path("out.npz"), "rb").read())
    check(results[0] == results[1] == results[2], "results at 1, 2 and 5 threads")
    with open(os.devnull, "rb") as nothing:
        run(name, "--inputs", file, stdin=nothing)


mistakes()
help_and_tables()
defaults()
seeds()
states()
older_opsets()
functions()
external_data()
test_cases()
random_numbers()
threads()
finish()
