#!/usr/bin/env python3
"""check_ranks.py TEMPOC TEMPO_RUN [MODEL_DIR ...]: steps of training over two ranks, each with half of the batch,
beside the same steps of one rank with all of it. Without models: how ranks meet, and end where they do not.

TEMPO_RUN computes on the emulated CUDA device. An export is compiled, and behind each gradient comes a step of gradient
descent, whose weights stay in the session (--keep). The first run goes launch by launch, later ones are recordings;
reductions run as late as they may, or as soon (EMU_NCCL), and buckets are small, so that there are many.
  - Both ranks have the same bits of gradients and weights, after each step.
  - They are those of one rank with the whole batch, up to the order of summation.
  - Reductions begin while gradients are still to be made, and none reads a gradient before it is written.
  - Where both have the whole batch, its rows in another order, the gradients are PyTorch's (expected.npz).
  - A batch of three rows and one of one row give the mean of what each gives alone.
Halves have equally many labels that count: the loss is a mean over these. An export of a fixed batch gets each row of
the half twice, which has the same mean.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

from compare import load, same_bits, worst
from programs import check, finish, write
from tolerances import GRADIENT, RANKS

STEPS = 3
RATE = 0.5
TEMPOC, TEMPO_RUN = sys.argv[1:3]


def begin(*command, **environment):
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment})


def compile_steps(model, recipe, path):
    """A graph with gradients and a step of descent; the names of weights."""
    assert begin(TEMPOC, model, "-o", path, "--recipe", recipe, "-q").wait(timeout=60) == 0
    compiled = onnx.load(path)
    graph = compiled.graph
    weights = {i.name: i for i in graph.initializer}
    trained = [o.name[:-5] for o in graph.output if o.name.endswith("_grad") and o.name[:-5] in weights]
    for name in trained:
        dtype, dims = weights[name].data_type, weights[name].dims
        if not any(i.name == name for i in graph.input):
            graph.input.append(helper.make_tensor_value_info(name, dtype, dims))
        rate = helper.make_tensor(name + ".rate", TensorProto.FLOAT, [], [RATE])
        graph.initializer.append(rate)
        graph.node.extend([
            helper.make_node("Cast", [rate.name], [name + ".typed_rate"], to=dtype),
            helper.make_node("Mul", [name + "_grad", name + ".typed_rate"], [name + ".change"]),
            helper.make_node("Sub", [name, name + ".change"], [name + ".next"])])
        graph.output.append(helper.make_tensor_value_info(name + ".next", dtype, dims))
    onnx.save(compiled, path)
    return trained


def steps(path, trained, feeds, count, bucket=4096, **environment):
    """The outputs of each rank behind so many steps; a rank for each of `feeds`."""
    keep = [f"--keep={name}.next={name}" for name in trained]
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank, feed in enumerate(feeds):
            mine = os.path.join(folder, str(rank))
            np.savez(mine + ".in.npz", **feed)
            ranked = [f"--rank={rank}/{len(feeds)}", f"--group={folder}/group", "--average=*_grad", "--average=loss"]
            traced = {"EMU_TRACE": mine + ".trace"} if rank == 0 else {}
            ranks.append(begin(TEMPO_RUN, path, "-i", mine + ".in.npz", "-o", mine + ".npz", f"--repeat={count}",
                               *keep, *(ranked if len(feeds) > 1 else []), EMU_BUCKET=str(bucket), **traced,
                               **environment))
        codes = [rank.wait(timeout=120) for rank in ranks]
        check(codes == [0] * len(feeds), f"{path}: exit codes {codes}")
        with open(os.path.join(folder, "0.trace"), encoding="utf-8") as file:
            trace = [(what, int(at), int(size)) for what, at, size in map(str.split, file)]
        return [load(os.path.join(folder, f"{rank}.npz")) for rank in range(len(feeds))], trace


def halves(inputs, is_fixed):
    """The batch, with as many labels in each row, and its rows as the two ranks get them."""
    batch = {name: np.array(a) for name, a in inputs.items()}
    batch["labels"][:, :3] = -100
    return batch, [{name: np.repeat(a[row:row + 1], 2 if is_fixed else 1, 0) for name, a in batch.items()}
                   for row in range(2)]


def numbers(got):
    return {name: np.asarray(a, np.float64) for name, a in got.items()}


def check_steps(name, path, trained, whole, parts, limit):
    before = {}
    for count in range(1, STEPS + 1):
        is_eager = count % 2 == 1
        (one,), _ = steps(path, trained, [whole], count)
        (first, second), trace = steps(path, trained, parts, count, EMU_NCCL="eager" if is_eager else "")
        check(same_bits(first, second), f"{name}: after {count} steps, ranks differ")
        moved = [not np.array_equal(first[w + ".next"], before.get(w + ".next")) for w in trained]
        check(sum(moved) > 0.9 * len(moved), f"{name}: weights stay as they were before step {count}")
        error, what = worst(numbers(first), numbers(one))
        check(error <= limit, f"{name}: after {count} steps, {what} is off by {error:.1e}")
        each, early = count_early(name, trace, count)
        check(not is_eager or min(early) > each / 2, f"{name}: no overlap: {early} of {each} reductions are early")
        print(f"{name}: {count} steps, worst error {error:.1e} ({what}), of {each} reductions {early} are early",
              flush=True)
        before = first


def count_early(name, trace, runs):
    """Of the reductions of a run, in the order of what ran: those before the launch that writes the last tensor, by
    run. Each must come behind the launch that writes its own tensor in this run."""
    reductions = [i for i, (what, _, _) in enumerate(trace) if what == "reduce"][1:]  # behind what ranks agree by
    check(reductions and len(reductions) % runs == 0, f"{name}: {len(reductions)} reductions in {runs} runs")
    each, began, early = len(reductions) // runs, 0, []
    for at in range(0, len(reductions), each):
        writers = []
        for place in reductions[at:at + each]:
            _, first, size = trace[place]
            writers.append(max((i for i in range(began, place) if trace[i][0] == "write" and
                                trace[i][1] < first + size and first < trace[i][1] + trace[i][2]), default=-1))
        check(min(writers) >= 0, f"{name}: a gradient is reduced before it is written")
        early.append(sum(place < max(writers) for place in reductions[at:at + each]))
        began = reductions[at + each - 1]
    return each, early


def check_model(folder, recipe):
    name = f"{os.path.basename(os.path.normpath(folder))} {recipe}"
    inputs, want = (load(os.path.join(folder, file)) for file in ("inputs.npz", "expected.npz"))
    is_fixed, limit = "-ts_" not in name, float(want.pop("limit", 0))
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "steps.onnx")
        trained = compile_steps(os.path.join(folder, "model.onnx"), recipe, path)
        whole, parts = halves(inputs, is_fixed)
        check_steps(name, path, trained, whole, parts, limit or RANKS)
        turned = {k: a[::-1] for k, a in inputs.items()}
        for got in steps(path, trained, [inputs, turned], 1)[0]:
            error, what = worst(numbers(got), want)
            check(error <= (limit or GRADIENT), f"{name}: {what} is off PyTorch's by {error:.1e}")
        if not is_fixed:
            uneven = [{k: np.concatenate([a, a[:1]]) for k, a in whole.items()}, parts[1]]
            alone = [numbers(steps(path, trained, [part], 1)[0][0]) for part in uneven]
            mean = {k: (alone[0][k] + alone[1][k]) / 2 for k in alone[0] if k == "loss" or k.endswith("_grad")}
            got = steps(path, trained, uneven, 2)[0]
            check(same_bits(*got), f"{name}: ranks of other batches differ")
            error, what = worst(numbers(steps(path, trained, uneven, 1)[0][0]), mean)
            check(error <= RANKS, f"{name}: batches of other lengths, {what} is off by {error:.1e}")


def check_meeting():
    """Ranks that do not find each other, or do something else, end and say so; who finds what."""
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        def ranks(code, *calls):
            """A rank for each of (rank, words of its error, more arguments)."""
            started = [(subprocess.Popen(
                [TEMPO_RUN, at("g.onnxt"), "-i", at("x.npz"), f"--rank={rank}/2", "--group", at("meet"),
                 "--patience=1", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "EMU_NCCL_SECONDS": "1"}), words) for rank, words, *arguments in calls]
            for process, words in started:
                said = process.communicate(timeout=60)[1]
                check(process.returncode == code and words in said, f"exit code {process.returncode}, not {code}, "
                      f"{words!r} in {said!r}")

        write(at("g.onnxt"), '<ir_version: 10, opset_import: ["" : 21]> '
                             "g (float[n] x) => (float[n] y, float[n] z) { y = Neg(x) z = Exp(x) }")
        np.savez(at("x.npz"), x=np.arange(3, dtype=np.float32))
        y, z = "--average=y", "--average=z"
        ranks(5, (1, "rank 1 of 2: '" + at("meet") + "', which rank 0 writes, did not come within 1 s", y))
        ranks(5, (0, "rank 0 of 2 cannot join: the other ranks did not come within 1 s", y))
        check(not os.path.exists(at("meet")), "rank 0 leaves its file behind")
        ranks(64, (0, "rank 1 of 2 averages other values than rank 0", y), (1, "rank 0 of 2", z))
        ranks(64, (0, "rank 1 of 2 averages other values than rank 0", y), (1, "rank 0 of 2", y, z))
        ranks(0, (0, "", "--average=*", "-o", at("out.npz")), (1, "", y, z, "-o", at("out.npz")))
        check(sorted(np.load(at("out.npz"))) == ["y", "z"], "one file of two ranks is one of theirs")
        for rank in range(2):  # one that runs once more
            shown = (rank, "the mean of 'y' and of 1 more did not come: a peer rank was lost", "--average=*",
                     "--repeat=3")
            other = subprocess.Popen([TEMPO_RUN, at("g.onnxt"), "-i", at("x.npz"), f"--rank={1 - rank}/2", "--group",
                                      at("meet"), "--average=*", "--repeat=2"], stdout=subprocess.DEVNULL)
            ranks(5, shown)
            check(other.wait(timeout=60) == 0, "a rank is done, and another goes on: exit code")
        with open(at("meet"), "w", encoding="utf-8"):
            ranks(5, (0, "'" + at("meet") + "' exists already", y))


def main():
    if not sys.argv[3:]:
        check_meeting()
    for folder in sys.argv[3:]:
        for recipe in ("none", "exact"):
            check_model(folder, recipe)
    finish()


if __name__ == "__main__":
    main()
