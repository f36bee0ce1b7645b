#!/usr/bin/env python3
"""Draws the loss curves of logs as an SVG picture.

usage: train_picture.py OUT.svg TITLE NAME=RUN.jsonl ... [--smooth N]
RUN.jsonl is what tempo-train --log wrote: losses of steps are a line, those of evaluations are dots on it. NAME says
what the curve is of, in the order of their colours. Curves that lie on one another take turns, in dashes, so that each
is seen. --smooth N draws means of N steps. Where a page is dark, so is the picture. Standard library only.
"""
import argparse
import json

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1060, 374, 72, 1048, 14, 306
COLOURS = ("#7b8790", "#0f766e", "#b45309", "#1d4ed8", "#9d174d")
ON_DARK = ("#9aa4ab", "#3cc0b0", "#f0a33a", "#7aa2f7", "#f472b6")
DASH, NEAR = 12, 1  # pixels: the length of a dash; how near a curve is to one that it lies on


def style(colours):
    return "\n".join(f".line{i} {{ stroke: {c}; }} .fill{i} {{ fill: {c}; }}" for i, c in enumerate(colours))


HEAD = f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -34 {WIDTH} {HEIGHT}" font-family="sans-serif" \
font-size="12" role="img" aria-label="loss over steps of training">
<style>
path {{ fill: none; stroke-width: 2; }}
.page {{ fill: #ffffff; }} text {{ fill: #5c666d; }} .grid {{ stroke: #dcded8; }}
{style(COLOURS)}
@media (prefers-color-scheme: dark) {{
.page {{ fill: #14171a; }} text {{ fill: #9aa4ab; }} .grid {{ stroke: #31373c; }}
{style(ON_DARK)}
}}
</style>
<rect class="page" x="0" y="-34" width="{WIDTH}" height="{HEIGHT}"/>'''


def read(path):
    """(step, loss) of updates, and of evaluations."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if "loss" in line]
    return tuple([(line["step"], line["loss"]) for line in lines if bool(line.get("eval")) == kind]
                 for kind in (False, True))


def smooth(points, n):
    return [(points[i][0], sum(loss for _, loss in points[max(0, i - n + 1):i + 1]) / min(n, i + 1))
            for i in range(len(points))]


def ticks(low, high):
    """Round numbers between the two, four to ten of them."""
    step = next(s * 10 ** e for e in range(-3, 7) for s in (1, 2, 5) if (high - low) / (s * 10 ** e) <= 9)
    first = int(low / step + (1 - 1e-9))
    return [i * step for i in range(first, int(high / step + 1e-9) + 1)]


def dashes(paths, i):
    """How the path is drawn: one of those that lie on each other has a dash in turn."""
    together = [k for k, path in enumerate(paths) if len(path) == len(paths[i]) and
                all(abs(a[0] - b[0]) + abs(a[1] - b[1]) < NEAR for a, b in zip(path, paths[i]))]
    n, turn = len(together), together.index(i)
    return f' stroke-dasharray="{DASH} {DASH * (n - 1)}" stroke-dashoffset="{-DASH * turn}"' if n > 1 else ""


def draw(title, curves):
    steps = [step for _, points, dots in curves for step, _ in points + dots]
    losses = [loss for _, points, dots in curves for _, loss in points + dots]
    low, high, last = min(losses), max(losses), max(steps)
    low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)

    def place(step, loss):
        return LEFT + (RIGHT - LEFT) * step / last, TOP + (BOTTOM - TOP) * (high - loss) / (high - low)

    yield HEAD
    for loss in ticks(low, high):
        y = place(0, loss)[1]
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>' \
              f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:g}</text>'
    for step in ticks(0, last):
        x = place(step, low)[0]
        anchor = "end" if x > RIGHT - 16 else "middle"
        yield f'<text x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="{anchor}">{step:g}</text>'
    yield f'<text x="{RIGHT}" y="-15" text-anchor="end">{title}</text>'
    paths = [[place(*point) for point in points] for _, points, _ in curves]
    x = LEFT
    for i, ((name, _, dots), path) in enumerate(zip(curves, paths)):
        yield f'<rect class="fill{i}" x="{x}" y="-24" width="14" height="10"/><text x="{x + 20}" y="-15">{name}</text>'
        x += 40 + 7 * len(name)
        if path:
            d = "L".join("{:.1f} {:.1f}".format(*point) for point in path)
            yield f'<path class="line{i}"{dashes(paths, i)} d="M{d}"/>'
        for point in dots:
            yield f'<circle class="fill{i}" cx="{{:.1f}}" cy="{{:.1f}}" r="4"/>'.format(*place(*point))
    yield "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("out", "title"):
        parser.add_argument(name)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--smooth", type=int, default=1)
    o = parser.parse_args()
    curves = []
    for run in o.runs:
        name, path = run.split("=", 1)
        points, dots = read(path)
        curves.append((name, smooth(points, o.smooth), dots))
    with open(o.out, "w", encoding="utf-8") as file:
        file.write("\n".join(draw(o.title, curves)))


if __name__ == "__main__":
    main()
