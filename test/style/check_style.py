#!/usr/bin/env python3
"""check_style.py ROOT: what CONTRIBUTING.md states of style and a program can see, each violation as FILE:LINE: what.

Standard library only, and seconds: it runs before everything else in ./check. Checked are the format of C (clang-format
14, by the tree's .clang-format), include directions, libraries seen by one place only, lines of at most 120 columns,
files of at most 700 lines, folders of at most 30 files, file names that occur once, words that users do not know in
texts that they read, blanks at the end of lines, tabs and final newlines. Exempt from
the 120 columns are rows of Markdown tables, the lines that FileCheck compares, which are one line of a program's
output, and sabotages of kernels, a line each: none can be broken.
"""
import collections
import concurrent.futures
import fnmatch
import os
import re
import shutil
import subprocess
import sys

import tree

COLUMNS, LINES, FILES = 120, 700, 30
SUFFIXES = (".c", ".h", ".cu", ".cuh", ".def", ".rules", ".py", ".sh", ".build", ".md", ".onnxt", ".scd", ".awk",
            ".bash", ".css", ".txt", ".map", ".clang-format", ".gitignore", "/run")
NO_SUFFIX = ("check", "demo", "LICENSE")
TABS = (".scd",)  # scdoc's own syntax
SHARED_NAMES = ("meson.build", "README.md")

# Who may include whom: programs everything but tests; tests and benchmarks everything. docs/architecture.md draws it.
MAY_INCLUDE = {
    "compiler/pack": (),
    "kernels": (),
    "compiler": ("compiler/pack",),
    "passes": ("compiler", "compiler/pack"),
    "runtime": ("compiler", "compiler/pack", "kernels"),
    "runtime/compile": ("compiler", "compiler/pack", "passes", "runtime", "kernels"),
    "programs/tempoc": ("compiler", "passes", "runtime", "runtime/compile", "kernels"),
    "programs/tempo-run": ("compiler", "passes", "runtime", "kernels"),
    "programs/tempo-train": ("compiler", "passes", "runtime", "runtime/compile", "kernels"),
}

# Words of ours in texts that users read, and what to say instead: docs/glossary.md. Decisions quote what was said then.
PRIVATE = [
    (r"behind", "after"),
    (r"foresee\w*|foreseen", "estimate"),
    (r"deserted", "a peer is lost"),
    (r"told|tells?", "given, inferred; says, reports"),
    (r"in the place of", "instead of, replaces"),
    (r"made again|makes? again|computed again|computes? again", "recomputed"),
    (r"whoever|nobody|somebody", "the one that is meant"),
]
USER_TEXTS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*.scd")
NO_USER_TEXTS = ("docs/decisions/*", "docs/glossary.md", "CONTRIBUTING.md")

# Each library is seen by one place: docs/reference/dependencies.md says which, and why.
LIBRARIES = [
    (r"onnx\.pb-c\.h|protobuf-c/.*", ["compiler/onnx/*"]),
    (r"dnnl.*|oneapi/.*", ["kernels/matmul/*"]),
    (r"omp\.h", ["kernels/*"]),
    (r"zip\.h", ["runtime/files/npz.c"]),
    (r"cmocka\.h", ["test/unit/*"]),
    (r"cuda_runtime.*\.h|cuda_fp16\.h|cuda_bf16\.h|cublasLt\.h|cub/.*", ["kernels/*"]),
    (r"nccl\.h", ["runtime/cuda/nccl_cuda.c"]),
    (r"mpi\.h", ["programs/tempo-train/ranks/train_mpi.c"]),
]

# Functions of libraries, and those of the system for memory and threads, say whether they have failed: somebody looks.
STATUSES = re.compile(r"""\b(dnnl_\w+|MPI_\w+|cu(?:da|blas|blasLt|dnn)[A-Z]\w+|nccl[A-Z]\w+|lib\.\w+|zip_\w+|
    protobuf_c_\w+|pthread_\w+|atexit|[gs]etrlimit|sysconf|sigaction|mmap|munmap|mprotect|madvise|
    posix_\w+|malloc|calloc|realloc|aligned_alloc|strdup)\s*\(""", re.X)
# Unless nobody could act on it: functions, files, why.
DROPPED = [
    (r"dnnl_\w+_destroy|zip_(discard|fclose|source_free|error_init|error_fini|error_init_with_code)|munmap|"
     r"cuda(GraphExecDestroy|EventDestroy|StreamDestroy|Free|FreeHost)|lib\.CommAbort", "*", "gives back"),
    (r"cudaGetLastError", "*", "forgets what has been told"),
    (r"cudaStreamSynchronize", "runtime/cuda/nccl_cuda.c", "behind an abort, whose failure has been told"),
    (r"pthread_(mutex|cond|attr)_\w+|pthread_(join|once|sigmask)|sigaction", "*", "no such lock, thread, signal: ours"),
    (r"(posix_)?madvise", "*", "advice"),
    (r"protobuf_c_message_pack_to_buffer", "*", "errors stay with the stream"),
]


def check_lines(root, path):
    text = tree.read(root, path)
    lines = text.split("\n")
    if text and lines.pop():
        yield f"{path}:{len(lines) + 1}: no newline at the end"
    if len(lines) > LINES:
        yield f"{path}:{LINES + 1}: {len(lines)} lines; a file has at most {LINES}"
    for number, line in enumerate(lines, 1):
        whole = path.endswith("/sabotages.txt") or path.endswith(".md") and line.startswith("|") or \
            path.endswith(".onnxt") and re.match(r"# (?!RUN:)[A-Z][A-Z0-9_-]*:", line)
        if len(line) > COLUMNS and not whole:
            yield f"{path}:{number}: {len(line)} columns; a line has at most {COLUMNS}"
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end of the line"
        if "\t" in line and not whole and not path.endswith(TABS):
            yield f"{path}:{number}: a tab"


def check_names(paths):
    places = collections.defaultdict(list)
    for path in paths:
        name = os.path.basename(path)
        if name not in SHARED_NAMES and not re.match(r"models/[^/]+/", path):
            places[name].append(path)
    for same in places.values():
        for path in same[1:]:
            yield f"{path}:1: {same[0]} has the same name; a file's name occurs once"


def check_folders(paths):
    for folder, n in collections.Counter(os.path.dirname(p) for p in paths).items():
        if n > FILES:
            yield f"{folder}:1: {n} files; a folder has at most {FILES}"


def check_words(root, paths):
    """Words of ours in pages, and in the texts of options and messages, which are strings of more than one word."""
    for path in paths:
        page = any(fnmatch.fnmatch(path, p) for p in USER_TEXTS) and \
            not any(fnmatch.fnmatch(path, p) for p in NO_USER_TEXTS)
        if not page and not (path.endswith((".c", ".def")) and path.startswith(tree.OWN)):
            continue
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            texts = [line] if page else [s for s in re.findall(r'"((?:[^"\\]|\\.)*)"', line) if "= " not in s]
            for text in texts:
                for word, instead in PRIVATE if " " in text else ():
                    found = re.search(rf"(?<![\w/-])(?:{word})(?![\w/-])", text, re.I)
                    if found:
                        yield f"{path}:{number}: '{found.group()}' in a text for users; say {instead}"


def check_includes(root, paths):
    for path, number, target in tree.includes(root, paths):
        part, other = tree.part_of(path), tree.part_of(target)
        if part != other and part in MAY_INCLUDE and other not in MAY_INCLUDE[part]:
            allowed = " and ".join(MAY_INCLUDE[part]) or "nothing of ours"
            yield f"{path}:{number}: {part} includes {target}; beside itself it may include {allowed}"


def check_libraries(root, paths):
    for path in paths:
        if not path.endswith(tree.CODE):
            continue
        for number, line in enumerate(tree.read(root, path).splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            for pattern, places in LIBRARIES if found and not path.startswith("test/") else ():
                if re.fullmatch(pattern, found.group(1)) and not any(fnmatch.fnmatch(path, p) for p in places):
                    yield f"{path}:{number}: {found.group(1)} is seen by {', '.join(places)} alone"


def without_comments(text):
    """The same length and lines, with blanks for comments, strings and directives."""
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*"
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)


def closing(text, at):
    """Behind the parenthesis that belongs to the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    return len(text)


def is_dropped(text, begin, end):
    """Whether the call text[begin:end] is a statement, or behind a cast to void."""
    before = text[:begin].rstrip()
    if text[end:].lstrip()[:1] not in (";", ",") or before.endswith("(void)") and text[end:].lstrip()[:1] == ",":
        return False
    if before.endswith("(void)") or before[-1:] in ";{}" or re.search(r"\b(else|do)$", before):
        return True
    if not before.endswith(")"):
        return False
    depth, at = 0, len(before)
    while at > 0 and (depth or at == len(before)):
        at -= 1
        depth += (before[at] == ")") - (before[at] == "(")
    return bool(re.search(r"\b(if|while|for|switch)\s*$", before[:at]))


def check_statuses(root, paths):
    for path in paths:
        if not path.endswith(tree.CODE) or path.startswith(("test/", "bench/")):
            continue
        text = without_comments(tree.read(root, path))
        for call in STATUSES.finditer(text):
            name = call.group(1)
            if is_dropped(text, call.start(), closing(text, call.end() - 1)) and \
                    not any(re.fullmatch(n, name) and fnmatch.fnmatch(path, p) for n, p, _ in DROPPED):
                line = text.count("\n", 0, call.start()) + 1
                yield f"{path}:{line}: nobody looks at what {name} returns"


def find_clang_format():
    """clang-format of version 14, or a message: other versions format in another way."""
    for name in ("clang-format-14", "clang-format"):
        tool = shutil.which(name)
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout if tool else ""
        if re.search(r"version 14\.", said):
            return tool, None
    return None, "clang-format 14 is not here (Debian: apt install clang-format-14); another version formats otherwise"


def check_format(root, paths, tool):
    code = [p for p in paths if p.endswith((".c", ".h", ".cu", ".cuh"))]
    batches = [code[i:i + 40] for i in range(0, len(code), 40)]

    def ask(batch):
        done = subprocess.run([tool, "--dry-run", *batch], cwd=root, capture_output=True, text=True, check=False)
        return re.findall(r"^(\S+?:\d+):\d+: warning:", done.stderr, re.M)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = set()
        for place in (p for batch in pool.map(ask, batches) for p in batch):
            path = place.rsplit(":", 1)[0]
            if path not in seen:
                seen.add(path)
                yield f"{place}: not as clang-format 14 has it; clang-format-14 -i {path}"


def main(root):
    paths = tree.tracked(root)
    texts = [p for p in paths if p.endswith(SUFFIXES) or p in NO_SUFFIX]
    bad = [what for path in texts for what in check_lines(root, path)]
    bad += [*check_names(paths), *check_folders(paths), *check_words(root, paths), *check_includes(root, paths),
            *check_libraries(root, paths), *check_statuses(root, paths)]
    tool, missing = find_clang_format()
    bad += check_format(root, paths, tool) if tool else [missing]
    print("\n".join(bad) if bad else f"{len(texts)} files are as CONTRIBUTING.md says")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
