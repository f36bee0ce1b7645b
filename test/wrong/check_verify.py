#!/usr/bin/env python3
"""tempoc --verify notices what is wrong: kernels, a gradient builder, a built-in gradient rule, broken on purpose one
at a time (wrong_parts.c), where recipe none, which has the same fault, agrees; and it finds nothing where nothing is.

usage: check_verify.py TEMPOC TEMPOC_WRONG TEMPOC_WRONG_RULES GRAPH | --models TEMPOC MODEL...
"""
import os
import re
import subprocess
import sys

KERNEL = r"differs from that of reference kernels"
SLOPE = r"is not the slope of the loss"
WRONG = {"binary_run": KERNEL, "cross_entropy_grad": KERNEL, "gather_grad": KERNEL, "norm_grad": KERNEL,
         "product_run": KERNEL, "unary_run": KERNEL, "gradient_matmul": SLOPE}
RIGHT = re.compile(r"(\d+) gradients? and the loss's slopes along 4 random directions, in (\w+): apart by (\S+) "
                   r"at most$", re.M)
# What tempoc takes for right: truncation and rounding of a difference in float, for files that double cannot stand for,
# come to some 1e-3 for one seed in four.
NEAR = {"double": 1e-5, "float": 1e-2}
STOPS = "not compared with slopes of the loss: gradients stop"
FAULTS = []


def verify(tempoc, model, *options, wrong=""):
    done = subprocess.run([tempoc, model, "--verify", *options], capture_output=True, text=True, check=False,
                          env=dict(os.environ, TEMPO_WRONG=wrong))
    return done.returncode, done.stdout, done.stderr


def expect_right(what, tempoc, model, *options):
    code, out, err = verify(tempoc, model, *options)
    found = RIGHT.search(out)
    near = found and int(found[1]) > 0 and float(found[3]) <= NEAR[found[2]]
    stops = "gradients stop at" in err and STOPS in out
    if code or not (near or stops):
        FAULTS.append(f"{what}: exit {code}\n{out[-1500:]}{err[-1500:]}")


def expect_wrong(what, pattern, not_pattern, tempoc, model, *options, wrong=""):
    code, out, err = verify(tempoc, model, *options, wrong=wrong)
    if code != 1 or not re.search(pattern, err) or re.search(not_pattern, err):
        FAULTS.append(f"{what}: exit {code}, expected 1 and {pattern!r}\n{out[-1500:]}{err[-1500:]}")


def main():
    if sys.argv[1] == "--models":
        for model in sys.argv[3:]:
            # Some exports are there to be refused.
            if subprocess.run([sys.argv[2], model, "-q"], stderr=subprocess.DEVNULL, check=False).returncode != 3:
                expect_right(model, sys.argv[2], model)
    else:
        tempoc, tempoc_wrong, tempoc_wrong_rules, graph = sys.argv[1:]
        expect_right("nothing wrong", tempoc, graph)
        expect_right("nothing named", tempoc_wrong, graph)
        for recipe in ("exact", "none"):
            for part, pattern in WRONG.items():
                expect_wrong(f"{part}, {recipe}", pattern, KERNEL if pattern is SLOPE else SLOPE, tempoc_wrong, graph,
                             f"--recipe={recipe}", wrong=part)
            expect_wrong(f"gradient rule, {recipe}", SLOPE, "differs from", tempoc_wrong_rules, graph,
                         f"--recipe={recipe}")
    print("\n".join(FAULTS) or "as expected")
    sys.exit(bool(FAULTS))


if __name__ == "__main__":
    main()
