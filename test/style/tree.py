"""The tree as the style tests see it: its text files, and which file includes which."""
import os
import re
import subprocess

OWN = ("compiler/", "passes/", "runtime/", "programs/")
PROGRAMS = ("programs/tempoc", "programs/tempo-run", "programs/tempo-train")
PLANS = ("compiler/pack/", "compiler/remat/")  # numbers alone
CODE = (".c", ".h", ".cu", ".cuh", ".def")


def tracked(root):
    """Paths of all files of the tree, by git, or of all files below `root` where there is no repository."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        return sorted(p for p in done.stdout.split("\0") if p and os.path.exists(os.path.join(root, p)))
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(("build", "__pycache__", ".git"))]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def part_of(path):
    """The part of the tree whose include directions a file obeys: a library, a program, or a folder of tests."""
    if path.startswith(PLANS):
        return "compiler/pack"
    for part in (*PROGRAMS, "runtime/compile"):
        if path.startswith(part + "/"):
            return part
    return path.split("/")[0]


def includes(root, paths):
    """(file, line, included file) for each #include of a file of ours. What is generated has no file and is left
    out."""
    known = set(paths)
    for path in paths:
        if not path.endswith(CODE):
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found:
                continue
            name = found.group(1)
            # A library's own folder is on the include path of what stands below it, the root on that of all.
            tried = [os.path.join(os.path.dirname(path), name), name, os.path.join(path.split("/")[0], name)]
            target = next((t for t in map(os.path.normpath, tried) if t in known), None)
            if target:
                yield path, number, target
