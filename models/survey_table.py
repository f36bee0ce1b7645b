"""Writes docs/models.md from what survey.py found."""
import collections
import datetime
import importlib.metadata

TITLES = {"tf_": "transformers", "timm_": "timm", "tv_": "torchvision", "df_": "diffusers",
    "nn_": "torch.nn, and small models by hand"}
EXPORTERS = {"ts17": "TorchScript, 17", "plain18": "dynamo, 18", "plain23": "dynamo, 23",
    "dyn18": "dynamo's defaults, 18"}
PLACES = ["attention", "layernorm", "rmsnorm", "gelu"]
HEAD = """# Models

Kinds of models that were exported by PyTorch, compiled, run, and compared with PyTorch's own loss and gradients, each
small (two layers of 32 where the kind allows), with random weights, in training mode without dropout, one batch.
`models/survey.py` wrote this page on {date}, with {versions}:

    python models/survey.py --tempoc build/tempoc --tempo-run build/tempo-run --cases DIR
    python models/survey.py --cases DIR --table docs/models.md

A kind is right where loss and every gradient are within 1e-4 of PyTorch's, by the measure of
`test/e2e/check_models.py`; `d`: in double, where batch statistics make PyTorch's own gradients in float that uncertain;
`random`: it draws numbers, so that it is only run. Named is the first exporter of TorchScript (opset 17) and dynamo
(opset 23, `optimize=False`) whose file is right, with the batch symbolic; `fixed` where PyTorch exports it at one batch
only. Bytes are those saved for the backward pass of this batch, by recipe `none` and by `exact`. Places are counted in
the file as it was exported: a softmax between two products, the root of a mean square, an erf or a tanh of a cube;
raised are the ops of the compiled graph. The two counts know nothing of each other.

| | kinds | right | refused or other numbers | not exported |
|---|---|---|---|---|
{sums}

Raised of places: {raised}.

"""


def best(rows):
    """The row of the exporter that counts: the first that is right, else the one that came furthest"""
    order = ["build", "export", "tempoc", "tempo-run", "gradients", "right"]
    ranked = sorted(rows, key=lambda r: (-order.index(r["stage"]), list(EXPORTERS).index(r["exporter"])))
    return ranked[0]


def outcome(row):
    if row["stage"] == "right":
        if row.get("message"):
            return "random"
        return f"{row['error']:.0e}" + (" d" if row.get("double") else "")
    return {"export": "not exported", "tempoc": "refused", "tempo-run": "refused", "gradients": "differ"}[row["stage"]]


def of_places(row, kinds):
    there = sum(row.get("places", {}).get(k, 0) for k in kinds)
    made = sum(min(row.get("raised", {}).get(k, 0), row.get("places", {}).get(k, 0)) for k in kinds)
    return f"{made}/{there}" if there else ""


def line(kind, row):
    saved = "{} → {}".format(*(f"{b:,}" for b in row["saved"])) if None not in row.get("saved", [None]) else ""
    how = EXPORTERS[row["exporter"]] + ("" if row.get("open", True) else ", fixed")
    cells = [kind, row.get("model", ""), how, outcome(row), saved, of_places(row, ["attention"]),
             of_places(row, ["layernorm", "rmsnorm"]), of_places(row, ["gelu"])]
    return "| " + " | ".join(cells) + " |"


def reason(row):
    return row.get("message", "").replace("|", "/").replace("<", "(").replace(">", ")")[:200]


def write(path, rows):
    by_kind = collections.defaultdict(list)
    for (kind, _), row in rows.items():
        by_kind[kind].append(row)
    chosen = {kind: best(found) for kind, found in sorted(by_kind.items())}
    chosen = {kind: row for kind, row in chosen.items() if row["stage"] != "build"}
    parts, sums, total = [], [], collections.Counter()
    for prefix, title in TITLES.items():
        own = {k: r for k, r in chosen.items() if k.startswith(prefix)}
        if not own:
            continue
        stages = collections.Counter({"right": "right", "export": "export"}.get(r["stage"],
            "wrong") for r in own.values())
        total.update(stages)
        total["kinds"] += len(own)
        sums.append(f"| {title} | {len(own)} | {stages['right']} | {stages['wrong']} | {stages['export']} |")
        parts += [f"## {title}", "", "| kind | model | exporter | error | bytes saved | attention | norms | GELU |",
                  "|---|---|---|---|---|---|---|---|"]
        parts += [line(k[len(prefix):], r) for k, r in own.items() if r["stage"] != "export"]
        parts.append("")
    sums.append(f"| all | {total['kinds']} | {total['right']} | {total['wrong']} | {total['export']} |")
    counted = {k: [sum(min(r.get("raised", {}).get(k, 0), r.get("places", {}).get(k, 0)) for r in chosen.values()),
                   sum(r.get("places", {}).get(k, 0) for r in chosen.values())] for k in PLACES}
    names = {"attention": "attention", "layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "gelu": "GELU"}
    told = ", ".join(f"{names[k]} {made} of {there}" for k, (made, there) in counted.items())
    packages = ["torch", "transformers", "timm", "torchvision", "diffusers", "onnxscript", "onnx"]
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)
    bad = [f"| {k} | {EXPORTERS[r['exporter']]} | {reason(r)} |" for k, r in chosen.items() if r["stage"] != "right"]
    text = HEAD.format(date=datetime.date.today(), versions=versions, sums="\n".join(sums), raised=told)
    text += "\n".join(parts)
    if bad:
        text += "\n## What is not right\n\n| kind | exporter | why |\n|---|---|---|\n" + "\n".join(bad) + "\n"
    with open(path, "w") as f:
        f.write(text)
    print(f"{total['kinds']} kinds, {total['right']} right; {told}")
