#!/usr/bin/env python3
"""test_style.py: check_style.py and draw_includes.py tell each violation, in trees that are made here with one of
each."""
import contextlib
import io
import os
import sys
import tempfile

import check_style
import draw_includes

OPENING = "/* a.c: a test. */\n"

# What is wrong with a tree of these files: the beginning of each line that is told.
CASES = {
    "long lines": ({"a.py": "#" * 121 + "\n", "docs/b.md": "| " + "x" * 130 + " |\n",
                    "c.onnxt": "# CHECK: " + "x" * 130 +
                    "\n# RUN: " + "x" * 130 + "\n"}, ["a.py:1: 121 columns", "c.onnxt:2: 137 columns"]),
    "long files": ({"a.py": "\n" * 700, "b.py": "\n" * 701}, ["b.py:701: 701 lines"]),
    "blanks and ends": ({"a.py": "x = 1 \n", "b.py": "\tx = 1\n", "c.py": "x = 1"},
                        ["a.py:1: blanks", "b.py:1: a tab", "c.py:1: no newline"]),
    "names": ({"a/x.py": "", "b/x.py": "", "a/meson.build": "", "b/meson.build": ""},
              ["b/x.py:1: a/x.py has the same"]),
    "includes": ({"kernels/k.h": "", "kernels/k.c": OPENING + '#include "compiler/c.h"\n', "compiler/c.h": "",
                  "compiler/c.c": OPENING + '#include "c.h"\n#include "passes/p.h"\n', "passes/p.h": "",
                  "passes/p.c": OPENING + '#include "compiler/c.h"\n', "programs/tempo-run/m.c": OPENING +
                  '#include "passes/p.h"\n', "compiler/pack/n.c": OPENING + '#include "compiler/c.h"\n'},
                 ["compiler/c.c:3: compiler includes passes/p.h", "compiler/pack/n.c:2: compiler/plan includes "
                                                                  "compiler",
                  "kernels/k.c:2: kernels includes compiler/c.h"]),
    "libraries": ({"runtime/r.c": OPENING + "#include <omp.h>\n", "kernels/k.c": OPENING + "#include <omp.h>\n"},
                  ["runtime/r.c:2: omp.h is seen by kernels/* alone"]),
    "statuses": ({"kernels/k.c": OPENING + "void f(void) {\n    mmap(0); /* munmap(0) */\n    if (dnnl_sgemm(0))\n"
                  "        (void)dnnl_sgemm(1);\n    int x = MPI_Init(g(0), 0);\n    for (;;)\n        zip_close(0);\n"
                  "    dnnl_memory_destroy(0);\n    CALL(q, cudaFree(\"mmap(0);\"));\n}\n"},
                 ["kernels/k.c:3: nobody looks at what mmap", "kernels/k.c:5: nobody looks at what dnnl_sgemm",
                  "kernels/k.c:8: nobody looks at what zip_close"]),
    "format": ({"a.c": OPENING + "int  x;\n", "b.c": OPENING + "int y;\n"}, ["a.c:2: not as clang-format"]),
}

# A graph of includes, its drawing, and what goes up.
PAGE = f"{draw_includes.BEGIN}\n    old\n\n{draw_includes.END}"
TREE = {"docs/architecture.md": PAGE, "compiler/a.h": "", "passes/b.c": '#include "compiler/a.h"\n',
        "passes/in/c.h": '#include "passes/in/d.h"\n', "passes/in/d.h": ""}
DRAWING = "    passes/in\n    passes      o\n    compiler    v\n"
UP = {**TREE, "compiler/e.c": '#include "a.h"\n#include "passes/in/d.h"\n'}


def make(folder, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)


def told_by(function, *arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = function(*arguments)
    return code, out.getvalue().splitlines()


def main():
    failed = []
    for name, (files, expected) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            make(folder, {".clang-format": "ColumnLimit: 120\nIndentWidth: 4\n", **files})
            code, told = told_by(check_style.main, folder)
        if code != 1 or len(told) != len(expected) or any(not t.startswith(e) for t, e in zip(sorted(told), expected)):
            failed.append(f"{name}: expected {expected}, was told {told}")
    with tempfile.TemporaryDirectory() as folder:
        make(folder, TREE)
        stale = told_by(draw_includes.main, folder, False)[0]
        blessed = told_by(draw_includes.main, folder, True)
        with open(os.path.join(folder, "docs/architecture.md"), encoding="utf-8") as file:
            drawn = file.read()
        if stale != 1 or blessed != (0, []) or drawn != f"{draw_includes.BEGIN}\n{DRAWING}\n{draw_includes.END}":
            failed.append(f"drawing: {stale}, {blessed}, {drawn}")
        make(folder, {p: t for p, t in UP.items() if p.startswith("compiler")})
        code, told = told_by(draw_includes.main, folder, True)
        if code != 1 or told != ["an arrow up: compiler/e.c:2: includes passes/in/d.h"]:
            failed.append(f"an arrow up: {code}, {told}")
    print("\n".join(failed) or f"{len(CASES) + 2} trees: as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
