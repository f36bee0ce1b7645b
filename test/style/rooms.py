#!/usr/bin/env python3
"""rooms.py ROOT BUILD [--bless]: the rooms of the tree, as rooms.txt lists them, against the calls between objects of a
build and the includes between files.

A call goes down the list or stays in its room. A call or an include back up is a failure, unless rooms.txt excuses it
with a reason; so is an excuse for nothing, a room that is not listed, and a drawing in docs/architecture.md that shows
other rooms. --bless writes the drawing.
"""
import collections
import json
import os
import re
import subprocess
import sys

import tree

PAGE = "docs/architecture.md"
BEGIN, END = "<!-- test/style/rooms.py draws this -->\n", "<!-- end of the drawing -->\n"
LIBRARIES = ("programs/", "passes/", "runtime/", "compiler/", "kernels/")


def room_of(path):
    """The folder of a file; the families of kernels are one room."""
    return "kernels" if path.startswith("kernels/") else os.path.dirname(path)


def read_list(text):
    """rooms.txt: {room: purpose} from top to bottom, and {(file, what is used): reason} of uses that may go up."""
    rooms, excuses = {}, {}
    for line in text.splitlines():
        if line.startswith("up "):
            use, _, reason = line[3:].partition(": ")
            excuses[tuple(use.split(" -> "))] = reason
        elif line and not line.startswith("#"):
            room, _, purpose = line.partition(": ")
            rooms[room] = purpose
    return rooms, excuses


def calls(root, build):
    """(file, symbol, file that defines it) for each use of a symbol between two own files, by a build's objects."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    sources = {}
    for command in commands:
        source = os.path.relpath(os.path.join(command["directory"], command["file"]), os.path.realpath(root))
        if source.startswith(LIBRARIES) and not command["output"].startswith(("test/", "bench/")):
            sources[os.path.join(command["directory"], command["output"])] = source
    listing = subprocess.run(["nm", "-A", "-P", *sources], capture_output=True, text=True, check=True).stdout
    defined, used = {}, set()
    for line in listing.splitlines():
        place, symbol, kind = line.split()[:3]
        source = sources[place.rstrip(":")]
        if kind == "U":
            used.add((source, symbol))
        elif kind.isupper():
            defined[symbol] = source
    return sorted((source, symbol, defined[symbol]) for source, symbol in used if symbol in defined)


def uses_of(root, build):
    """calls() and includes, as (file, what, file that has it)."""
    found = calls(root, build)
    for path, _, target in tree.includes(root, tree.tracked(root)):
        found.append((path, os.path.basename(target), target))
    return [(a, what, b) for a, what, b in found if a.startswith(LIBRARIES) and b.startswith(LIBRARIES)]


def judge(rooms, excuses, uses):
    """What is wrong, and {room: rooms whose headers it includes}."""
    place = {room: i for i, room in enumerate(rooms)}
    wrong, arrows, needed = [], collections.defaultdict(set), set()
    for room in sorted({room_of(path) for use in uses for path in (use[0], use[2])} - set(rooms)):
        wrong.append(f"test/style/rooms.txt does not list {room}")
    for path, what, target in uses:
        a, b = room_of(path), room_of(target)
        if a == b or a not in place or b not in place:
            continue
        if "." in what:
            arrows[a].add(b)  # by includes, which are the same in every build
        if place[b] < place[a]:
            needed.add((path, what))
            if (path, what) not in excuses:
                wrong.append(f"{path} uses {what} of {target}, which is above it")
    wrong += [f"test/style/rooms.txt excuses {path} -> {what}, which goes up no more"
              for path, what in excuses if (path, what) not in needed]
    return wrong, arrows


def draw(rooms, arrows):
    """A table for each library: rooms from top to bottom, the purpose of each, and the rooms that it includes."""
    lines = []
    for library in LIBRARIES:
        inside = [r for r in rooms if f"{r}/".startswith(library)]
        below = [other for other in LIBRARIES if other != library and
                 any(f"{b}/".startswith(other) for r in inside for b in arrows[r])]
        lines += ["", f"**{library}**" + (f" uses {', '.join(below)}" if below else "") + ".", "",
                  "| room | what it is for | uses |", "|---|---|---|"]
        for room in inside:
            short = [b.removeprefix(library) for b in rooms if b in arrows[room] and b in inside]
            lines.append(f"| {room.removeprefix(library)} | {rooms[room]} | {', '.join(short)} |")
    return "\n".join(lines) + "\n\n"


def main(root, build, bless):
    rooms, excuses = read_list(tree.read(root, "test/style/rooms.txt"))
    wrong, arrows = judge(rooms, excuses, uses_of(root, build))
    print("\n".join(wrong))
    page = tree.read(root, PAGE)
    before, begin, rest = page.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has no place for the drawing, between\n{BEGIN}{END}")
    drawing = draw(rooms, arrows)
    if old != drawing and bless:
        with open(os.path.join(root, PAGE), "w", encoding="utf-8") as file:
            file.write(f"{before}{begin}{drawing}{end}{after}")
    elif old != drawing:
        wrong.append(PAGE)
        print(f"{PAGE} draws other rooms than the tree has: 'ninja -C build bless' draws them")
    return 1 if wrong else 0


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--bless"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    sys.exit(main(*arguments, "--bless" in sys.argv))
