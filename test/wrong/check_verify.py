#!/usr/bin/env python3
"""tempoc --verify notices what is wrong: kernels, a gradient builder, a built-in gradient rule, broken on purpose one
at a time (wrong_parts.c), where recipe none, which has the same fault, agrees; and it finds nothing where nothing is.

usage: check_verify.py TEMPOC TEMPOC_WRONG TEMPOC_WRONG_RULES GRAPH | --models TEMPOC MODEL...
"""
import re
import sys

from programs import check, finish, run
from tolerances import VERIFIED

KERNEL = r"differs from that of reference kernels"
SLOPE = r"is not the slope of the loss"
WRONG = {"binary_run": KERNEL, "cross_entropy_grad": KERNEL, "gather_grad": KERNEL, "norm_grad": KERNEL,
         "product_run": KERNEL, "unary_run": KERNEL, "gradient_matmul": SLOPE}
RIGHT = re.compile(r"(\d+) gradients? and the loss's slopes along 4 random directions, in (\w+): apart by (\S+) "
                   r"at most$", re.M)
STOPS = "not compared with slopes of the loss: gradients stop"


def verify(tempoc, model, *options, wrong=""):
    done = run(tempoc, model, "--verify", *options, env={"TEMPO_WRONG": wrong}, code=None)
    return done.code, done.out, done.err


def expect_right(what, tempoc, model, *options):
    code, out, err = verify(tempoc, model, *options)
    found = RIGHT.search(out)
    near = found and int(found[1]) > 0 and float(found[3]) <= VERIFIED[found[2]]
    stops = "gradients stop at" in err and STOPS in out
    check(code == 0 and (near or stops), f"{what}: exit {code}\n{out[-1500:]}{err[-1500:]}")


def expect_wrong(what, pattern, not_pattern, tempoc, model, *options, wrong=""):
    code, out, err = verify(tempoc, model, *options, wrong=wrong)
    check(code == 1 and re.search(pattern, err) and not re.search(not_pattern, err),
          f"{what}: exit {code}, expected 1 and {pattern!r}\n{out[-1500:]}{err[-1500:]}")


def main():
    if sys.argv[1] == "--models":
        for model in sys.argv[3:]:
            # Some exports are there to be refused.
            if run(sys.argv[2], model, "-q", code=None).code != 3:
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
    finish()


if __name__ == "__main__":
    main()
