"""What the benchmarks share: running a program and what it took, tables, the machine's name."""
import json
import os
import platform
import subprocess
import sys


def run(*command, feed=None):
    done = subprocess.run(command, input=feed, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def measured(build, *command, feed=None):
    """Output, and what it took (usage.c): a dict with wall, cpu and resident."""
    *output, usage = run(os.path.join(build, "bench", "usage"), *command, feed=feed).splitlines()
    return "\n".join(output), json.loads(usage)


def table(title, rows):
    print(f"\n{title}")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine_line(threads):
    return f"{processor()}, {threads} threads, load {os.getloadavg()[0]:.1f} at the start"
