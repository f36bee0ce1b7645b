#!/usr/bin/env python3
"""Draws the loss curves of logs as an SVG picture.

usage: train_picture.py OUT.svg TITLE NAME=RUN.jsonl ... [--smooth N]
RUN.jsonl is what tempo-train --log wrote: losses of steps are a line, those of evaluations are dots on it. NAME says
what the curve is of, in the order of their colours; what is drawn first lies below. --smooth N draws means of N steps.
Standard library only.
"""
import argparse
import json

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1060, 374, 72, 1048, 14, 306
COLOURS = ("#8b96a0", "#0f766e", "#b45309", "#1d4ed8", "#9d174d")
WIDTHS = (6, 1.5, 1.5, 1.5, 1.5)
HEAD = f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -34 {WIDTH} {HEIGHT}" font-family="sans-serif" \
font-size="12" role="img" aria-label="loss over steps of training">
<style>text {{ fill: #5c666d; }} .grid {{ stroke: #dcded8; stroke-width: 1; }} path {{ fill: none; }}</style>
<rect x="0" y="-34" width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'''


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
        yield f'<text x="{place(step, low)[0]:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{step:g}</text>'
    yield f'<text x="{RIGHT}" y="-15" text-anchor="end">{title}</text>'
    x = LEFT
    for (name, points, dots), colour, width in zip(curves, COLOURS, WIDTHS):
        yield f'<rect x="{x}" y="-24" width="14" height="10" fill="{colour}"/><text x="{x + 20}" y="-15">{name}</text>'
        x += 40 + 7 * len(name)
        if points:
            path = "L".join("{:.1f} {:.1f}".format(*place(*point)) for point in points)
            yield f'<path stroke="{colour}" stroke-width="{width}" d="M{path}"/>'
        for point in dots:
            yield '<circle cx="{:.1f}" cy="{:.1f}" r="4" '.format(*place(*point)) + f'fill="{colour}"/>'
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
