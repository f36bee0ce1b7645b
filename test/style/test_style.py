#!/usr/bin/env python3
"""test_style.py: check_style.py and rooms.py tell each violation, in trees that are made here with one of
each."""
import contextlib
import io
import os
import sys
import tempfile

import check_style
import rooms

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
    "folders": ({f"{folder}/{folder}{i}.py": "" for folder, n in (("a", 30), ("b", 31)) for i in range(n)},
                ["b:1: 31 files"]),
    "words": ({"README.md": "It waits behind it.\n", "docs/glossary.md": "behind\n", "docs/decisions/001.md": "told\n",
               "passes/p.c": OPENING + 'f("y = behind (x)", "behind", "nobody knows");\n'},
              ["README.md:1: 'behind' in a text", "passes/p.c:2: 'nobody' in a text"]),
    "includes": ({"kernels/k.h": "", "kernels/k.c": OPENING + '#include "compiler/c.h"\n', "compiler/c.h": "",
                  "compiler/c.c": OPENING + '#include "c.h"\n#include "passes/p.h"\n', "passes/p.h": "",
                  "passes/p.c": OPENING + '#include "compiler/c.h"\n', "programs/tempo-run/m.c": OPENING +
                  '#include "passes/p.h"\n', "compiler/pack/n.c": OPENING + '#include "compiler/c.h"\n'},
                 ["compiler/c.c:3: compiler includes passes/p.h", "compiler/pack/n.c:2: compiler/pack includes "
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

# A list of rooms, uses between files, and what is wrong with them.
ROOMS = rooms.read_list("# a comment\npasses/a: top\npasses/b: ground\n"
                        "up passes/b/x.c -> f: why\nup passes/b/x.c -> g: why\n")
USES = [("passes/a/y.c", "x.h", "passes/b/x.h"), ("passes/b/x.c", "f", "passes/a/y.c"),
        ("passes/b/x.c", "y.h", "passes/a/y.h"), ("passes/c/z.c", "h", "passes/b/x.c")]
WRONG = ["test/style/rooms.txt does not list passes/c", "passes/b/x.c uses y.h of passes/a/y.h, which is above it",
         "test/style/rooms.txt excuses passes/b/x.c -> g, which goes up no more"]


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
    told, arrows = rooms.judge(*ROOMS, USES)
    if told != WRONG or arrows["passes/a"] != {"passes/b"} or "| a | top | b |" not in rooms.draw(ROOMS[0], arrows):
        failed.append(f"rooms: {told}, {arrows}")
    print("\n".join(failed) or f"{len(CASES) + 1} trees: as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
