#!/usr/bin/env python3
"""draw_includes.py ROOT [--bless]: compares the diagram of include directions in docs/architecture.md with the tree.

A row is a folder, or several that include each other; rows stand from what runs to what everything rests on. A column
is an arrow: it starts in the rows that include something of a folder (o) and ends in that folder's row (v). An include
that would have to go up is told by its file and is a failure; folders of kernels are one row. --bless writes the
diagram.
"""
import os
import sys

import tree

PAGE = "docs/architecture.md"
BEGIN, END = "<!-- test/style/draw_includes.py draws this -->\n", "<!-- end of the drawing -->\n"

# The order of the parts, top to bottom: an include goes down, or stays inside its part.
LAYERS = ["programs/tempo-train", "programs/tempoc", "compiler/tempoc-plan", "programs/tempo-run", "passes", "runtime",
          "compiler", "compiler/plan", "kernels"]


def folder_of(path):
    """The row that a file belongs to, before rows that include each other become one."""
    return "kernels" if path.startswith("kernels/") else os.path.dirname(path)


def part_of_folder(folder):
    return tree.part_of(folder + "/x")


def edges_of(root):
    edges = {}
    for path, number, target in tree.includes(root, tree.tracked(root)):
        a, b = folder_of(path), folder_of(target)
        if part_of_folder(a) in LAYERS and part_of_folder(b) in LAYERS:
            edges.setdefault(a, {}).setdefault(b, f"{path}:{number}: includes {target}")
            edges.setdefault(b, {})
    return edges


def reached(edges, start):
    seen, todo = set(), [start]
    while todo:
        for other in edges[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def rows_of(edges):
    """Lists of folders, top to bottom: those of a part that include each other together, includers first."""
    reach = {f: reached(edges, f) for f in edges}
    groups = []
    for folder in sorted(edges):
        part = part_of_folder(folder)
        mutual = [f for f in sorted(edges) if f == folder or part_of_folder(f) == part and
                  f in reach[folder] and folder in reach[f]]
        if mutual not in groups:
            groups.append(mutual)

    def above(group):
        part = LAYERS.index(part_of_folder(group[0]))
        inside = [f for f in reach[group[0]] if part_of_folder(f) == part_of_folder(group[0])]
        return part, -len([f for f in inside if f not in group]), -len(inside), group

    return sorted(groups, key=above)


def label(group):
    first = group[0]
    inner = [f[len(first) + 1:] for f in group[1:]]
    return f"{first} with {', '.join(inner)}" if inner else first


def draw(rows, edges):
    """The text of the diagram, and the includes that go up in it."""
    place = {folder: i for i, group in enumerate(rows) for folder in group}
    up, arrows = [], {}
    for a, targets in edges.items():
        for b, example in targets.items():
            if place[b] < place[a]:
                up.append(example)
            elif place[b] > place[a]:
                arrows.setdefault(place[b], set()).add(place[a])
    width = max(len(label(group)) for group in rows) + 2
    lines = []
    for i, group in enumerate(rows):
        line = "    " + label(group).ljust(width)
        for end in sorted(arrows):
            begin = min(arrows[end])
            mark = "v" if i == end else "o" if i in arrows[end] else "|" if begin < i < end else " "
            line += f" {mark} "
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n", up


def main(root, bless):
    edges = edges_of(root)
    drawing, up = draw(rows_of(edges), edges)
    page = tree.read(root, PAGE)
    before, begin, rest = page.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has no place for the drawing, between\n{BEGIN}{END}")
    for example in up:
        print(f"an arrow up: {example}")
    if old != f"\n{drawing}\n":
        if bless:
            with open(os.path.join(root, PAGE), "w", encoding="utf-8") as file:
                file.write(f"{before}{BEGIN}\n{drawing}\n{END}{after}")
        else:
            print(f"{PAGE} draws other includes than the tree has; 'ninja -C build bless' draws\n{drawing}")
            return 1
    return 1 if up else 0


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--bless"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    sys.exit(main(arguments[0], "--bless" in sys.argv))
