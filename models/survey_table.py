"""Writes docs/models.md from what survey.py found."""
import collections
import datetime
import importlib.metadata
import os
import re
import textwrap

TITLES = {"tf_": "transformers", "timm_": "timm", "tv_": "torchvision", "df_": "diffusers",
          "nn_": "torch.nn, and small models by hand"}
EXPORTERS = {"ts17": "TorchScript, 17", "plain23": "dynamo, 23", "plain18": "dynamo, 18",
             "dyn18": "dynamo's defaults, 18"}
PLACES = {"attention": "attention", "layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "gelu": "GELU"}
MODULES = "nn_"  # on a page of their own
STAGES = ["build", "export", "tempoc", "tempo-run", "gradients", "right"]
LOST = """Other numbers under a loss that is PyTorch's come of what a file does not hold: `detach` and `padding_idx` in
TorchScript's, `no_grad` and the backward pass of an `autograd.Function` in both. [exporting.md](exporting.md) has the
ways around. Where TorchScript alone was tried, dynamo may still be right."""
FAULT = {"refused": "ONNX Runtime refuses the file, too",
         "loss": "the file computes another loss, in ONNX Runtime, too"}
PACKAGES = ["torch", "transformers", "timm", "torchvision", "diffusers", "onnxscript", "onnx"]
HEAD = """# Models

Kinds of models that were exported by PyTorch, compiled, run, and compared with PyTorch's own loss and gradients, each
small (two layers of 32 where the kind allows), with random weights, in training mode without dropout, one batch.
`models/survey.py` wrote this page on {date}{build}:
{versions}.

    python models/survey.py --tempoc build/tempoc --tempo-run build/tempo-run --cases DIR --exporters ts17,plain23
    python models/survey.py --cases DIR --table docs/models.md

A kind is right where loss and every gradient are within 1e-4 of PyTorch's, by the measure of
`test/e2e/check_models.py`; `d`: in double, where batch statistics make PyTorch's own gradients in float that uncertain,
or where rounding decides (a value of 1e-8 at the kink of an activation), so that float is off and the same graph in
double is right; `random`: it draws numbers, so that it is only run. Named is the first exporter of TorchScript (opset
17) and dynamo (opset 23, `optimize=False`) whose file is right, with the batch symbolic; `fixed` where PyTorch exports
it at one batch only. Bytes are those saved for the backward pass of this batch, by recipe `none` and by `exact`. Places
are counted in the file as it was exported: a softmax between two products, the root of a mean square, an erf or a tanh
of a cube; raised are the ops of the compiled graph. The two counts know nothing of each other.

| | kinds | right | PyTorch's exporters fail | refused or other numbers |
|---|---|---|---|---|
{sums}

[models-modules.md](models-modules.md) has the last of these. Raised of places:
{raised}

"""


def best(rows):
    """The row of the exporter that counts: the first that is right, else the one that came furthest"""
    return min(rows, key=lambda r: (-STAGES.index(r["stage"]), list(EXPORTERS).index(r["exporter"])))


def verdict(row):
    """right, exporter (no file, or one that ONNX Runtime refuses or reads otherwise than PyTorch), or wrong"""
    if row["stage"] == "right":
        return "right"
    return "exporter" if row["stage"] == "export" or row.get("runtime") in FAULT else "wrong"


def outcome(row):
    if row["stage"] != "right":
        return "differs" if row["stage"] == "gradients" else "refused"
    in_double = row.get("double") or "float" in row
    return "random" if row.get("message") else f"{row['error']:.0e}" + (" d" if in_double else "")


def counts(rows, kinds):
    """(raised, places) of these kinds; in double attention is left in its parts, so that it counts in float alone"""
    rows = [row for row in rows if not row.get("double")]
    there = sum(row.get("places", {}).get(k, 0) for row in rows for k in kinds)
    made = sum(min(row.get("raised", {}).get(k, 0), row.get("places", {}).get(k, 0)) for row in rows for k in kinds)
    return made, there


def not_raised(chosen):
    """A sentence that names the kinds with places that are not raised, and how many of how many are; or nothing"""
    named = []
    for kind, row in chosen.items():
        made, there = counts([row], PLACES)
        if verdict(row) != "exporter" and "raised" in row and made < there:
            named.append(f"{kind} ({made} of {there})")
    return f" Places are left in: {', '.join(named)}." if named else ""


def line(kind, row):
    saved = "{} → {}".format(*(f"{b:,}" for b in row["saved"])) if None not in row.get("saved", [None]) else ""
    how = EXPORTERS[row["exporter"]] + ("" if row.get("open", True) else ", fixed")
    shares = [counts([row], kinds) for kinds in (["attention"], ["layernorm", "rmsnorm"], ["gelu"])]
    cells = [kind, row.get("model", ""), how, outcome(row), saved, *(f"{m}/{n}" if n else "" for m, n in shares)]
    return "| " + " | ".join(cells) + " |"


def reason(row):
    said = re.sub(r"\x1b\[\d+m|[|<>`*]", " ", row.get("message", "")).split("; hint: ")[0]
    return ": ".join(filter(None, [FAULT.get(row.get("runtime"), ""), said[:200].strip()]))


def sections(chosen):
    """(rows of the table of sums, {prefix: lines of its table of kinds})"""
    sums, parts, total = [], {}, collections.Counter()
    for prefix, title in TITLES.items():
        own = {k[len(prefix):]: r for k, r in chosen.items() if k.startswith(prefix)}
        if not own:
            continue
        found = collections.Counter(verdict(r) for r in own.values())
        total += found
        sums.append(f"| {title} | {len(own)} | {found['right']} | {found['exporter']} | {found['wrong']} |")
        parts[prefix] = [f"## {title}", "",
                         "| kind | model | exporter | error | bytes saved | attention | norms | GELU |",
                         "|---|---|---|---|---|---|---|---|",
                         *(line(k, r) for k, r in own.items() if verdict(r) != "exporter"), ""]
    sums.append(f"| all | {len(chosen)} | {total['right']} | {total['exporter']} | {total['wrong']} |")
    return sums, parts


def not_right(by_kind, chosen):
    """Tables of what PyTorch's exporters fail at, and of what is refused or comes out with other numbers"""
    lines = []
    for fault, title in (("wrong", "Refused, or other numbers"), ("exporter", "PyTorch's exporters fail")):
        found = {k: r for k, r in chosen.items() if verdict(r) == fault}
        if found:
            lines += ["", f"## {title}", "", *([LOST, ""] if fault == "wrong" else [])]
            lines += ["| kind | tried | why |", "|---|---|---|"]
            lines += ["| {} | {} | {} |".format(k, "; ".join(EXPORTERS[t["exporter"]] for t in by_kind[k]), reason(r))
                      for k, r in found.items()]
    return lines


def write(path, rows, build):
    """`build`: what was tried, such as a commit; empty: not told"""
    by_kind = collections.defaultdict(list)
    for (kind, _), row in rows.items():
        by_kind[kind].append(row)
    chosen = {kind: best(found) for kind, found in sorted(by_kind.items())}
    chosen = {kind: row for kind, row in chosen.items() if row["stage"] != "build"}
    sums, parts = sections(chosen)
    there = [row for row in chosen.values() if verdict(row) != "exporter"]
    told = ", ".join("{} {} of {}".format(name, *counts(there, [k])) for k, name in PLACES.items())
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in PACKAGES)
    text = HEAD.format(date=datetime.date.today(), versions=versions, build=f", of {build}" if build else "",
                       sums="\n".join(sums), raised=textwrap.fill(f"{told}.{not_raised(chosen)}", 120))
    modules = parts.pop(MODULES, [])
    with open(path, "w") as f:
        f.write(text + "\n".join([*sum(parts.values(), []), *not_right(by_kind, chosen)[1:]]) + "\n")
    with open(path.replace(".md", "-modules.md"), "w") as f:
        told_there = f"The rest of [models.md]({os.path.basename(path)}), which tells how this came about."
        f.write("\n".join(["# Layers, losses and small models", "", told_there, "", *modules]))
    print(f"{sums[-1]} {told}")
