#!/usr/bin/env python3
"""Tries many kinds of models: exports each with PyTorch, compiles, runs, compares loss and gradients with PyTorch's,
and tells what was saved and raised.

usage: survey.py --tempoc FILE --tempo-run FILE --cases DIR [--kinds GLOB,...] [--exporters NAME,...] [--jobs N]
                 [--again WHAT] [--table FILE] [--only STEP]
  --cases DIR       gets a folder KIND.EXPORTER of each export, and results.jsonl; what is there already is taken
  --kinds GLOBS     tf_* (transformers), timm_*, tv_* (torchvision), df_* (diffusers), nn_* (modules); default: all
  --exporters NAMES ts17, plain18, plain23, dyn18; default: ts17,plain23,plain18
  --all             every exporter of the list; else those behind the first that comes out right are not tried
  --again WHAT      compile and run again: all, wrong (what was not right), or none [default: wrong]
  --export-again    try again exports that failed
  --only STEP       export or check
  --only-known      only kinds of which there are results
  --limit N, --memory N  seconds and GiB that a step may take [default: 120, 10]
  --table FILE      write the table, docs/reference/models.md, and end; --build TEXT: which tempoc it was
Each step of each kind runs in a process of its own, in bounded time and memory.
Needs: torch 2.15, transformers 5.23, onnxscript, onnx, numpy; timm, torchvision and diffusers for theirs. Not needed to
build, test or run Tempo.
"""
import argparse
import fnmatch
import json
import os
import resource
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
GIB = 1 << 30


def parse():
    a = argparse.ArgumentParser(add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("-h", "--help", action="version", version=__doc__)
    a.add_argument("--tempoc", default="tempoc")
    a.add_argument("--tempo-run", default="tempo-run")
    a.add_argument("--cases", required=True)
    a.add_argument("--kinds", default="*")
    a.add_argument("--exporters", default="ts17,plain23,plain18")
    a.add_argument("--all", action="store_true")
    a.add_argument("--jobs", type=int, default=1)
    a.add_argument("--again", default="wrong", choices=["all", "wrong", "none"])
    a.add_argument("--export-again", action="store_true")
    a.add_argument("--only-known", action="store_true", help="only kinds of which there are results")
    a.add_argument("--only", choices=["export", "check"])
    a.add_argument("--limit", type=int, default=120, help="seconds a step may take")
    a.add_argument("--memory", type=int, default=10, help="GiB a step may take")
    a.add_argument("--table")
    a.add_argument("--build", default="")
    return a.parse_args()


class Results:
    """(kind, exporter) -> what came of it; a JSON object a line, the last of each counts"""

    def __init__(self, folder):
        self.path, self.rows = os.path.join(folder, "results.jsonl"), {}
        if os.path.exists(self.path):
            with open(self.path) as f:
                for row in map(json.loads, f):
                    self.rows[row["kind"], row["exporter"]] = row

    def add(self, row):
        self.rows[row["kind"], row["exporter"]] = row
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")


def apart(step, o):
    """Runs step() in a process of its own: what it returns, or a dictionary with what went wrong"""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (o.memory * GIB, o.memory * GIB))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            made = step()
        except BaseException as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            made = {"message": f"{type(e).__name__}: {str(e)[:400]} ({os.path.basename(where.filename)}:"
                               f"{where.lineno})".replace("\n", " ")}
        with os.fdopen(write, "w") as f:
            f.write(json.dumps(made))
        os._exit(0)
    os.close(write)
    return child, read


def collect(child, read, started, o):
    """None while it runs"""
    done, _ = os.waitpid(child, os.WNOHANG)
    if not done and time.time() - started < o.limit:
        return None
    if not done:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        return {"message": f"took more than {o.limit} s"}
    with os.fdopen(read) as f:
        text = f.read()
    return json.loads(text) if text else {"message": "ended by a signal, or out of memory"}


def one(kind, exporters, results, o):
    """Tries a kind by each exporter until it is right"""
    rows = []
    for exporter in exporters:
        folder = os.path.join(o.cases, f"{kind}.{exporter}")
        old = results.get((kind, exporter), {})
        row = {"kind": kind, "exporter": exporter}
        is_new = not os.path.exists(os.path.join(folder, "case.json"))
        if is_new:
            if o.only == "check" or old.get("stage") in ("build", "export") and not o.export_again:
                if old:
                    rows.append(old)
                if old.get("stage") == "build":
                    break
                continue
            row.update(exported(kind, exporter, folder))
            if "stage" in row:
                rows.append(row)
                if row["stage"] == "build":
                    break
                continue
        if o.only == "export":
            break
        fresh = old.get("stage") not in (None, "build", "export") and not is_new
        if fresh and (o.again == "none" or o.again == "wrong" and old["stage"] == "right"):
            rows.append(old)
        else:
            import survey_one
            try:
                rows.append({**row, **survey_one.try_case(folder, o.tempoc, o.tempo_run)})
            except Exception as e:
                rows.append({**row, "stage": "tempoc", "message": f"{type(e).__name__}: {str(e)[:300]}"})
        if rows[-1]["stage"] == "right" and not o.all:
            break
    return {"rows": rows}


def exported(kind, exporter, folder):
    """Empty, or the stage that failed"""
    import torch
    import survey_kinds
    import survey_one
    torch.manual_seed(7)
    try:
        task, feeds = survey_kinds.make(kind)
    except BaseException as e:
        return {"stage": "build", "message": f"{type(e).__name__}: {str(e)[:500]}".replace("\n", " ")}
    try:
        survey_one.write_case(folder, task, feeds, exporter, survey_kinds.batch(kind))
    except BaseException as e:
        while e.__cause__ is not None:
            e = e.__cause__
        return {"stage": "export", "message": f"{type(e).__name__}: {str(e)[:500]}".replace("\n", " ")}
    return {}


def main():
    o = parse()
    os.makedirs(o.cases, exist_ok=True)
    results = Results(o.cases)
    if o.table:
        import survey_table
        return survey_table.write(o.table, results.rows, o.build)
    if o.only == "check":
        kinds = sorted({kind for kind, _ in results.rows} | {n.rsplit(".", 1)[0] for n in os.listdir(o.cases)
                                                             if "." in n and n != "results.jsonl"})
    else:
        import survey_kinds
        survey_kinds.warm()
        kinds = survey_kinds.kinds()
    globs, exporters = o.kinds.split(","), o.exporters.split(",")
    todo = [k for k in kinds if any(fnmatch.fnmatch(k, g) for g in globs)]
    if o.only_known:
        known = {kind for kind, _ in results.rows}
        todo = [k for k in todo if k in known]
    running = []
    while todo or running:
        while todo and len(running) < o.jobs:
            kind = todo.pop(0)
            running.append((kind, time.time(), *apart(lambda: one(kind, exporters, results.rows, o), o)))
        for job in list(running):
            kind, started, child, read = job
            made = collect(child, read, started, o)
            if made is None:
                continue
            running.remove(job)
            for row in made.get("rows", [{"kind": kind, "exporter": exporters[0], "stage": "export",
                                          "message": made.get("message", "")}]):
                if row != results.rows.get((row["kind"], row["exporter"])):
                    results.add(row)
                print(row["kind"], row["exporter"], row["stage"], row.get("message", ""),
                      f"{row['error']:.1e}" if "error" in row else "", row.get("places", ""), row.get("raised", ""),
                      f"{time.time() - started:.1f} s", flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
