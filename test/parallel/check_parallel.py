#!/usr/bin/env python3
"""check_parallel.py ALONE [MPIRUN RANK_TOOL] [--trials=N]: ranks of tempo-train, by the program rank_tool (its head
tells what it does), which mpirun starts. ALONE is the program in a build without MPI: it refuses to be one of several.

  - Means of every type are those of loops in double; the same bits on all ranks, in every run, whatever the chunks.
  - Steps of gradient descent with momentum over 1, 2, 3 and 4 ranks, whose parts of the batch may differ in size, or be
    empty, give the weights and losses of numpy, in double, with the whole batch.
  - A rank that is killed, stopped, stuck or that fails, and an mpirun that is ended or killed: all end in time, one
    message names the rank, and no process stays. N trials of each kind.
"""
import argparse
import os
import re
import signal
import time

import numpy as np

import rank_job
from compare import load, near
from programs import check, finish, path, run as run_any, write
from rank_job import GONE_IN, SILENT_IN
from tolerances import DESCENT

arguments = argparse.ArgumentParser()
arguments.add_argument("alone")
arguments.add_argument("mpirun", nargs="?")
arguments.add_argument("tool", nargs="?")
arguments.add_argument("--trials", type=int, default=1)
o = arguments.parse_args()
ENVIRONMENT = {**rank_job.ENVIRONMENT, "TEMPO_RANK_TIMEOUT": str(SILENT_IN)}


def command(ranks, *rest):
    return ([o.mpirun, "-n", str(ranks)] if ranks else []) + [o.tool, *map(str, rest)]


def run(ranks, *rest, code=0):
    """What it printed, to stdout and stderr. Ranks 0: without mpirun."""
    done = run_any(*command(ranks, *rest), env=ENVIRONMENT, timeout=100, code=None)
    check(done.code == code, f"{ranks} ranks, {rest}: exit code {done.code}\n{done.text}")
    return done.out, done.err


def without_mpi():
    for size, code in ((None, 0), ("1", 0), ("2", 3)):
        done = run_any(o.alone, "say", env={"OMPI_COMM_WORLD_SIZE": size} if size else {}, code=None)
        check(done.code == code, f"without MPI, size {size}: exit code {done.code}")
        check(("this build has no MPI" in done.err) == (code == 3), done.err)


# --- means ---------------------------------------------------------------------------------------

def presence():
    alone = "rank 0 of 1, threads 0, collective no\n"
    check(run(0, "say")[0] == alone, "alone")
    check(run(1, "say")[0] == alone, "one rank")
    said = sorted(run(3, "say")[0].splitlines())
    check([line.split(",")[0] for line in said] == [f"rank {i} of 3" for i in range(3)], said)
    check(all("collective yes" in line and int(re.search(r"threads (\d+)", line).group(1)) >= 1 for line in said), said)


def means():
    for ranks in (2, 3, 4):
        bits = {run(ranks, "means", chunk)[0] for chunk in (1 << 20, 1 << 20, 7, 1000)}
        check(len(bits) == 1 and "bits" in bits.pop(), f"{ranks} ranks: bits differ")


# --- training ------------------------------------------------------------------------------------

STEPS, RATE, DECAY = 6, 0.25, 0.5
MODEL = """<ir_version: 10, opset_import: ["" : 21, "ai.tempo" : 1],
 metadata_props: ["tempo.keep.w_new" : "w", "tempo.keep.v_new" : "v", "tempo.keep.b_new" : "b",
                  "tempo.keep.u_new" : "u"]>
g (float[n,4] x, float[n,3] t, int64 step, float rate, float[4,3] w, float[4,3] v, float[3] b, float[3] u)
 => (float loss, float[4,3] w_new, float[4,3] v_new, float[3] b_new, float[3] u_new)
 <int64[1] rows = {0}, float two = {2}> {
  xw = MatMul(x, w) y = Add(xw, b) d = Sub(y, t) dd = Mul(d, d) loss = ReduceMean<keepdims = 0>(dd)
  n64 = Size(d) n = Cast<to = 1>(n64) share = Div(two, n) dy = Mul(d, share)
  gb = ReduceSum<keepdims = 0>(dy, rows)
  b_new, u_new = ai.tempo.Momentum<alpha = 0.5, beta = 1.0, mode = "standard", norm_coefficient = 0.0>
    (rate, step, b, gb, u)
  xt = Transpose<perm = [1, 0]>(x) gw = MatMul(xt, dy)
  w_new, v_new = ai.tempo.Momentum<alpha = 0.5, beta = 1.0, mode = "standard", norm_coefficient = 0.0>
    (rate, step, w, gw, v)
}"""


def descend(x, t, w, b):
    """ONNX's Momentum, in double: the velocity decays and takes the gradient; the first step takes all of it."""
    v, u, losses = np.zeros_like(w), np.zeros_like(b), []
    for _ in range(STEPS):
        d = x @ w + b - t
        losses.append((d * d).mean())
        dy = 2 * d / d.size
        v, u = DECAY * v + x.T @ dy, DECAY * u + dy.sum(0)
        w, b = w - RATE * v, b - RATE * u
    return losses, {"w": w, "v": v, "b": b, "u": u}


def training():
    random = np.random.default_rng(1)
    w, b = random.normal(size=(4, 3)), random.normal(size=3)
    model, given, out = (path(name) for name in ("m.onnxt", "in.npz", "out.npz"))
    write(model, MODEL)
    for rows in (24, 10, 3):
        x, t = random.normal(size=(rows, 4)), random.normal(size=(rows, 3))
        x, t, w, b = (a.astype("f4").astype("f8") for a in (x, t, w, b))
        losses, wanted = descend(x, t, w, b)
        feed = {"x": x, "t": t, "w": w, "b": b, "v": 0 * w, "u": 0 * b, "rate": np.array(RATE)}
        np.savez(given, **{name: a.astype("f4") for name, a in feed.items()})
        for ranks, bucket in ((0, 1), (2, 1), (2, 1 << 20), (3, 1), (4, 1), (4, 1 << 20)):
            printed, _ = run(ranks, "train", model, given, out, STEPS, bucket)
            got = load(out)
            what = f"{rows} rows on {ranks} ranks"
            check(near([float(line.split()[1]) for line in printed.splitlines()], losses, DESCENT),
                  f"{what}: losses {printed} {losses}")
            for name, value in wanted.items():
                check(near(got[name], value, DESCENT), f"{what}: {name}")
            os.remove(out)


# --- what goes wrong -----------------------------------------------------------------------------

class Work(rank_job.Job):
    """Ranks that work, and tell their processes."""

    def __init__(self, ranks):
        super().__init__(command(ranks, "work"), ENVIRONMENT)
        until = time.monotonic() + 30
        while len(self.processes) < ranks and time.monotonic() < until:
            time.sleep(0.05)
            self.processes = {int(r): int(p) for r, p in re.findall(r"rank (\d+) process (\d+)\n", self.text())}
        check(len(self.processes) == ranks, f"ranks do not begin: {self.text()}")

    def fail(self, seconds, what, *named):
        """How long it took to end."""
        took, code = self.end(seconds, what, *named)
        check(code != 0, f"{what}: mpirun ends with {code}")
        return took


def disturbed(ranks, trials):
    times = {}
    for trial in range(trials):
        victim = trial % ranks
        for kind, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
            job = Work(ranks)
            time.sleep(0.01 * (trial % 20))
            names = job.disturb(victim, number)
            took = job.fail(GONE_IN + (SILENT_IN if kind == "stopped" else 0), f"rank {victim} of {ranks} {kind}",
                            *names)
            times.setdefault(kind, []).append(took)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            job = Work(ranks)
            job.mpirun.send_signal(number)
            times.setdefault(f"mpirun got {number.name}", []).append(job.fail(GONE_IN, f"mpirun got {number.name}"))
    for kind, took in times.items():
        print(f"{ranks} ranks, {kind}: {len(took)} trials, all ended in {max(took):.2f} s, no process left", flush=True)


def failing():
    for ranks, who in ((2, 0), (2, 1), (4, 3)):
        _, said = run(ranks, "fail", who, code=2)
        check(said.count(f"rank {who} does not like its data") == 1, said)
        check("is lost" not in said, said)
    _, said = run(4, "fail", "all", code=2)
    check(said.count("does not like") == 1 and "rank 0 does not like" in said, said)
    _, said = run(3, "differ", 1, code=5)
    check(said.count("rank 1 of 3 has computed other bits than rank 0, at step 3") == 1, said)
    for who in (0, 2):
        _, said = run(3, "stuck", who, code=5)
        check(said.count("error:") == 1 and f"rank {who} of 3" in said, said)
        check(f"is stuck: it has computed 'node that hangs' for {SILENT_IN} s" in said, said)


without_mpi()
if o.mpirun:
    presence()
    means()
    training()
    failing()
    disturbed(2, o.trials)
    disturbed(4, o.trials)
finish()
