"""Writes docs/reference/models.md from the results of survey.py."""
import collections
import datetime
import importlib.metadata
import re
import textwrap

TITLES = {"tf_": "transformers", "timm_": "timm", "tv_": "torchvision", "df_": "diffusers",
          "nn_": "torch.nn, and small models by hand"}
EXPORTERS = {"ts17": "TorchScript, 17", "plain23": "dynamo, 23", "plain18": "dynamo, 18",
             "dyn18": "dynamo's defaults, 18"}
PLACES = {"attention": "attention", "layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "gelu": "GELU"}
STAGES = ["build", "export", "tempoc", "tempo-run", "gradients", "right"]
LOST = """Other numbers under PyTorch's loss come from information that files lack: `detach` and `padding_idx` in
TorchScript's, `no_grad` and the backward pass of an `autograd.Function` in both.
[What goes wrong](../howto/exporting.md#what-goes-wrong) has the ways around."""
FAULT = {"refused": "ONNX Runtime refuses the file, too",
         "loss": "the file computes another loss, in ONNX Runtime, too"}
PACKAGES = ["torch", "transformers", "timm", "torchvision", "diffusers", "onnxscript", "onnx"]
HEAD = """# Models

Kinds of models that PyTorch exported and Tempo ran, compared with PyTorch's own loss and gradients. Each is small (two
layers of 32 where the kind allows), with random weights, in training mode without dropout. `models/survey/survey.py`
wrote this page on {date}{build}: {versions}.

    cd models/survey
    python survey.py --tempoc ../../build/tempoc --tempo-run ../../build/tempo-run --cases DIR --exporters ts17,plain23
    python survey.py --cases DIR --table ../../docs/reference/models.md

| | kinds | right | PyTorch's exporters fail | refused or other numbers |
|---|---|---|---|---|
{sums}

Right: loss and every gradient are within 1e-4 of PyTorch's, in float, or in double where float itself is uncertain.
Found in the exported files, and raised to one op each: {raised}

Kinds are listed under the first exporter whose file is right: TorchScript (opset 17), else dynamo (opset 23,
`optimize=False`). "Fixed": PyTorch exports it at one batch only. Where TorchScript alone was tried, dynamo may work.

"""


def best(rows):
    """The row of the exporter that counts: the first that is right, else the one that came furthest"""
    return min(rows, key=lambda r: (-STAGES.index(r["stage"]), list(EXPORTERS).index(r["exporter"])))


def verdict(row):
    """right, exporter (no file, or one that ONNX Runtime refuses or reads otherwise than PyTorch), or wrong"""
    if row["stage"] == "right":
        return "right"
    return "exporter" if row["stage"] == "export" or row.get("runtime") in FAULT else "wrong"


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


def listed(own):
    """A paragraph for each exporter: the kinds that are right by it; (fixed) where it exports one batch alone"""
    by_exporter = collections.defaultdict(list)
    for kind, row in own.items():
        if verdict(row) == "right":
            by_exporter[row["exporter"]].append(kind + ("" if row.get("open", True) else " (fixed)"))
    for exporter, name in EXPORTERS.items():
        if exporter in by_exporter:
            text = f"*{name}:* {', '.join(by_exporter[exporter])}."
            yield from [*textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False), ""]


def reason(row):
    said = re.sub(r"\x1b\[\d+m|[|<>`*]", " ", row.get("message", "")).split("; hint: ")[0]
    said = re.sub(r".*operator '(\S+)' to ONNX opset.*", r"no form for \1", said)
    return ": ".join(filter(None, [FAULT.get(row.get("runtime"), ""), said[:90].strip()]))


def sections(chosen):
    """(rows of the table of sums, lines of the lists of kinds)"""
    sums, parts, total = [], [], collections.Counter()
    for prefix, title in TITLES.items():
        own = {k[len(prefix):]: r for k, r in chosen.items() if k.startswith(prefix)}
        if not own:
            continue
        found = collections.Counter(verdict(r) for r in own.values())
        total += found
        sums.append(f"| {title} | {len(own)} | {found['right']} | {found['exporter']} | {found['wrong']} |")
        parts += [f"## {title}", "", *listed(own)]
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
    """`build`: the version that was tried, such as a commit; empty: unknown"""
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
    with open(path, "w") as f:
        f.write(text + "\n".join([*parts, *not_right(by_kind, chosen)[1:]]) + "\n")
    print(f"{sums[-1]} {told}")
