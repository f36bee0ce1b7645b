#!/usr/bin/env python3
"""Runs ONNX's node test cases, as they are and as tempoc compiles them, and holds both programs to their claims.

usage: claims.py TEMPOC TEMPO_RUN FOLDER CLAIMS.md [--bless] [--besides=CASE,...]

A claim is an op, an opset and an element type (of the first input): every case of it passes, and passes again when its
model went through tempoc first. CLAIMS.md lists them; it is made by --bless. The test fails when a claimed case does
not pass, or when a case fails, or onnx's checker refuses a compiled model, that CLAIMS.md does not list. FOLDER is
where the cases are made and compiled when they are not there (through.py): tests on several devices share it.
--besides names unclaimed cases that may fail on the device at hand: whoever names them says why.
"""
import collections
import os
import re
import subprocess
import sys
import textwrap

import through

FEWEST = 1310       # claimed cases, and those of
FEWEST_CORE = 1080  # the training core; both only grow

# The ops that graphs of training are made of.
CORE = set("""
Add Sub Mul Div Neg Abs Sqrt Reciprocal Exp Log Pow Erf Tanh Sigmoid Relu Gelu Sign Min Max Clip Mod Floor Ceil Round
Sin Cos Sum Mean Swish SwiGLU Softplus Where Equal Greater GreaterOrEqual Less LessOrEqual Not And Or IsNaN IsInf MatMul
Gemm Einsum Conv Softmax LogSoftmax LayerNormalization RMSNormalization Attention RotaryEmbedding Dropout
SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2
ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin CumSum TopK Cast CastLike Reshape Transpose Squeeze Unsqueeze
Flatten Expand Shape Size Slice Split Concat Tile Pad Identity Trilu Gather GatherElements GatherND ScatterElements
ScatterND OneHot NonZero TensorScatter Constant ConstantOfShape Range EyeLike If Loop Scan Adam Adagrad Momentum
""".split())

HEADER = """# What Tempo claims of ONNX's node tests

Made by `test/backend/claims.py`. A claim is an op, an opset of the model and an element type of its first input: every
node case of the onnx package with these three passes, as `tempo-run --test-data` compares (rtol 1e-3, atol 1e-7;
bfloat16 2^-6; integers equal). "Body" rows are the cases in which the op is spelled out by its function body. Each case
passes three times: the model as it is, as `tempoc --recipe=forward` compiles it, and with the bodies of ops of
`ai.tempo` in their place besides.

"""


def read_cases(folder):
    cases = {}
    with open(os.path.join(folder, "cases.txt"), encoding="utf-8") as file:
        for line in file:
            name, op, opset, dtype, expanded = line.split()
            cases[name] = (op, int(opset), dtype, expanded == "1")
    for name, (_, opset, dtype, expanded) in cases.items():
        if expanded:
            base = cases.get(name.split("_expanded")[0])
            cases[name] = ((base[0] if base else name), opset, dtype, True)
    return cases


def run_cases(tool, folder):
    done = subprocess.run([tool, "--test-data", folder], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"tempo-run ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    results = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(PASS|FAIL|UNSUPPORTED) (\S+?)(?:: (.*))?$", line)
        if match:
            reason = re.sub(r"^.*?model\.onnx: error: ", "", match[3] or "")
            results[match[2]] = (match[1], reason)
    return results


def run_compiled(tool, folder, failed, results):
    """What passes as it is has to pass when it is compiled: else `results` say why not."""
    for pipeline, why in failed.items():
        compiled = run_cases(tool, f"{folder}-{pipeline}")
        for name, (verdict, _) in results.items():
            if verdict != "PASS":
                continue
            after = compiled.get(name, ("FAIL", why.get(name, "no model")))
            if after[0] != "PASS":
                results[name] = ("FAIL", f"compiled ({pipeline}): {after[1]}")


def run_all(tempoc, tool, folder):
    """The cases, {case: (verdict, reason)}, and {case: why onnx's checker refuses what was compiled of it}."""
    with through.compiled_cases(tempoc, folder) as found:
        cases, results = read_cases(folder), run_cases(tool, folder)
        lost = sorted(set(cases) - set(results))
        if lost:
            sys.exit(f"no result for {len(lost)} cases: {lost[:5]}")
        run_compiled(tool, folder, found["failed"], results)
    return cases, results, found["refused"]


def group(cases, results):
    """{(op, body, dtype): {opset: [case names]}}, and the keys whose opset has a case that does not pass."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, (op, opset, dtype, body) in sorted(cases.items()):
        groups[op, body, dtype][opset].append(name)
    claimed = {(key, opset): names for key, opsets in groups.items() for opset, names in opsets.items()
               if all(results[n][0] == "PASS" for n in names)}
    return groups, claimed


def passed(results, names):
    return sum(results[name][0] == "PASS" for name in names)


def core_of(cases):
    return [name for name, (op, _, _, _) in cases.items() if op in CORE]


def render_claims(claimed, cases, results):
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for ((op, body, dtype), opset), names in claimed.items():
        rows[op, body][opset].append((dtype, len(names)))
    total, core = sum(len(names) for names in claimed.values()), core_of(cases)
    text = (f"{total} cases are claimed; {passed(results, results)} of the {len(results)} that can be made of the "
            f"runtime's types pass. Of the training core, the {len(core)} cases of {len(CORE)} ops that graphs of "
            f"training are made of, {passed(results, core)} pass.\n\n")
    text += "| op | opset | element types | cases |\n|---|---|---|---|\n"
    for (op, body), opsets in sorted(rows.items()):
        for opset, types in sorted(opsets.items()):
            names = ", ".join(sorted(t for t, _ in types))
            text += f"| {op}{' (body)' if body else ''} | {opset} | {names} | {sum(n for _, n in types)} |\n"
    return text


def render_failures(results):
    text = ("\n## Cases that fail\n\nThe expected masks of the training_dropout cases, and numbers of the bernoulli "
            "cases, are draws of numpy's random stream; ours are Philox's. The results of attention in float16 are "
            "numpy's, which rounds after each operation; ours rounds less, and is more than rtol away in the last "
            "places.\n\n")
    failing = [(name, reason) for name, (verdict, reason) in sorted(results.items()) if verdict == "FAIL"]
    return text + ("".join(f"- `{name}`: {reason}\n" for name, reason in failing) or "None.\n")


def render_core(cases, results):
    text = "\n## Cases of the training core that are not supported\n\n"
    return text + "".join(f"- `{name}` is not run: {results[name][1].split('; hint')[0]}\n"
                          for name in sorted(core_of(cases))
                          if results[name][0] == "UNSUPPORTED")


def render_refused(refused):
    text = """
## Compiled models that onnx's checker refuses

Opset 21 does not have all element types that later opsets have, and onnx's inference for its pooling counts a last
window that starts in the padding (`ceil_mode`); later versions do not, as runtimes never did. The numbers of these
cases are right all the same.

"""
    return text + ("".join(f"- `{name}` is refused: {why}\n" for name, why in sorted(refused.items())) or "None.\n")


def wrap(text):
    """Lines of at most 120 columns, but for tables."""
    lines = []
    for line in text.split("\n"):
        indent = "  " if line.startswith("- ") else ""
        lines += [line] if line.startswith("|") else textwrap.wrap(
            line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def render_missing(cases, results):
    text = "\n## Ops not claimed\n\nOpset and element type of the first input; the first reason stands for all.\n\n"
    missing = collections.defaultdict(list)
    for name, (op, opset, dtype, _) in sorted(cases.items()):
        if results[name][0] == "UNSUPPORTED":
            missing[op].append((opset, dtype, results[name][1]))
    for op, entries in sorted(missing.items()):
        where = ", ".join(sorted({f"{opset} {dtype}" for opset, dtype, _ in entries}))
        text += f"- {op} ({where}; {len(entries)} cases): {entries[0][2].split('; hint')[0]}\n"
    return text


def parse(text):
    """The claimed triples, the failing cases and the refused models of a rendered file."""
    claimed, failing = set(), set(re.findall(r"^- `(\S+)`: ", text, re.M))
    for op, body, opset, types in re.findall(r"^\| (\S+?)( \(body\))? \| (\d+) \| (.*?) \| \d+ \|$", text, re.M):
        claimed.update(((op, bool(body), dtype), int(opset)) for dtype in types.split(", "))
    return claimed, failing, set(re.findall(r"^- `(\S+)` is refused: ", text, re.M))


def main(tempoc, tool, folder, path, bless, besides):
    cases, results, refused = run_all(tempoc, tool, folder)
    _, claimed = group(cases, results)
    if bless:
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEADER + wrap(render_claims(claimed, cases, results) + render_failures(results) +
                                     render_refused(refused) + render_core(cases, results) +
                                     render_missing(cases, results)))
    with open(path, encoding="utf-8") as file:
        committed, failing, known = parse(file.read())
    failing |= besides
    bad = [f"claimed, but does not pass: {n}: {results[n]}" for key in sorted(committed - set(claimed))
           for n, (op, opset, dtype, body) in cases.items() if ((op, body, dtype), opset) == key
           and results[n][0] != "PASS"]
    bad += [f"fails: {n}: {r}" for n, (verdict, r) in results.items() if verdict == "FAIL" and n not in failing]
    bad += [f"the checker refuses what was compiled of {n}: {why}" for n, why in refused.items() if n not in known]
    total, core = sum(len(claimed[key]) for key in committed if key in claimed), passed(results, core_of(cases))
    more = sum(len(names) for key, names in claimed.items() if key not in committed)
    print(f"{total} claimed cases pass, {core} of the training core; {more} more pass that are not claimed yet "
          f"(claims.py --bless)")
    if total < FEWEST or core < FEWEST_CORE:
        bad.append(f"fewer than {FEWEST} cases are claimed, or fewer than {FEWEST_CORE} of the training core pass")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    others = {name for a in sys.argv if a.startswith("--besides=") for name in a[len("--besides="):].split(",")}
    if len(arguments) != 4:
        sys.exit(__doc__)
    sys.exit(main(*arguments, "--bless" in sys.argv, others))
