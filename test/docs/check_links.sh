#!/usr/bin/env bash
# check_links.sh TOOL...: what the Markdown files point to is there:
#   links to files, and to headings in them
#   files named in backquotes by their path from the top, as `compiler/ir/ir.h` (a * stands for any name)
#   options, --as-this: of our programs, or among those of other programs below
# All that is wrong is printed, as FILE:LINE.
set -euo pipefail
tools=()
for tool in "$@"; do tools+=("$(realpath "$tool")"); done
cd "$(dirname "$0")/../.."

# Options of the programs that the docs tell to run: git, meson, mandoc, pip, our scripts.
foreign='--again --allow-run-as-root --benchmark --bless --branch --case --cases --count --cuda --deep --demand
    --double --emulated --exit --exporters --flags --graph --layered --length --limit --list --mode
    --no-rebuild --only --ort --oversubscribe --pack --plan --print --print-errorlogs --processor --recipes
    --reconfigure --results --rounds --run --seconds --setup --small --stride --suite --table --tempo-run
    --tempo-train --tempoc --text --timeout-multiplier --times --torch --trials --twists --ways --wrap'
known=$(for tool in "${tools[@]}"; do "$tool" --help=table; done |
    awk -F '\t' '{ print "--" $2; if ($4 == "") print "--no-" $2 }'; printf '%s\n' $foreign)

# What stands before an option.
before='(^|[ (`"|])'

anchors() { # FILE: its headings as a link names them
    sed -nE '/^```/,/^```/d; s/^#+ +//p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

wrong=$(
    find . -name '*.md' -not -path './build*' -not -path './.git/*' | sort | while IFS= read -r file; do
        file=${file#./} folder=$(dirname "$file")
        # Not in code: links are prose.
        grep -noE '\]\([^)]+\)' "$file" | while IFS=: read -r line link; do
            link=${link#*](} link=${link%)}
            case $link in *://*) continue ;; esac
            path=${link%%#*} target=$folder/${link%%#*}
            [ -n "$path" ] || target=$file
            if [ ! -e "$target" ]; then
                echo "$file:$line: no such file: $link"
            elif [ "$link" != "$path" ] && ! anchors "$target" | grep -qxF -- "${link#*#}"; then
                echo "$file:$line: no such heading: $link"
            fi
        done || true
        grep -noE '`(compiler|docs|kernels|models|passes|programs|runtime|test)/[A-Za-z0-9_./*-]*`' "$file" |
            while IFS=: read -r line path; do
            path=${path//\`/}
            case $path in *NAME* | *OP* | *FAMILY*) continue ;; esac
            compgen -G "$path" >/dev/null || echo "$file:$line: no such file: $path"
        done || true
        grep -noE -- "$before"'--[a-z][a-z0-9_-]*' "$file" | sed -E 's/:[^:]*--/:--/' |
            while IFS=: read -r line option; do
            case $option in *_* | *-) continue ;; esac # a line of a diagram
            grep -qxF -- "$option" <<<"$known" || echo "$file:$line: no such option: $option"
        done || true
    done
)
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
