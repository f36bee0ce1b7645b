#!/bin/bash
# Runs the '# RUN:' lines of a test file, one after the other; each is a bash command line. A line that ends in '\' goes
# on in the next RUN line. The test passes when every command does (a pipe fails when any part of it fails).
#
#   test/run.sh FILE             tools are looked for in build/ (or $TEMPO_BIN), FileCheck is $FILECHECK or found
#
# Substituted: %s the test file, %S its folder, %t a path for temporary files of this test (%t.onnx, %t2, ...), %% a
# percent sign. 'not COMMAND' passes when the command fails with any exit code but that of a crash; 'not --exit=N
# COMMAND' wants just that exit code. 'raised %s' compares what the pass raise makes of the file: its text, by CHECK and
# by COUNT, and which rules matched how often, by STATS.
set -u
file=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
bin=$(realpath "${TEMPO_BIN:-$root/build}")
for candidate in "${FILECHECK:-}" FileCheck FileCheck-{19,18,17,16,15,14}; do
    filecheck=$(command -v "$candidate") && break
done
[ -n "$filecheck" ] || { echo "FileCheck was not found (Debian: apt install llvm-14-tools)"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PATH=$bin:$bin/bench/tempoc-plan:$PATH
FileCheck() { "$filecheck" --dump-input-context=20 "$@"; }
not() {
    local expected=any code=0
    case "$1" in --exit=*) expected=${1#--exit=}; shift ;; esac
    "$@" || code=$?
    if [ "$expected" = any ]; then
        [ $code -gt 0 ] && [ $code -lt 126 ] && return 0
        echo "expected a failure, got exit code $code: $*" >&2
    else
        [ "$code" = "$expected" ] && return 0
        echo "expected exit code $expected, got $code: $*" >&2
    fi
    return 1
}
raised() {
    local passes=--passes=shapes,canonicalize,raise
    tempoc "$1" $passes --verify-each -q -o - --emit=text > raised.txt && FileCheck "$1" < raised.txt &&
        FileCheck "$1" --check-prefix=COUNT < raised.txt &&
        tempoc "$1" $passes --stats | FileCheck "$1" --check-prefix=STATS
}
export -f FileCheck not raised
export filecheck

run() {
    local line=$1
    line=${line//%%/$'\001'}
    line=${line//%s/$file}
    line=${line//%S/$(dirname "$file")}
    line=${line//%t/$folder/t}
    line=${line//$'\001'/%}
    (cd "$folder" && bash -o pipefail -c "$line") > "$folder/.log" 2>&1 && return 0
    echo "FAILED: $line"
    cat "$folder/.log"
    exit 1
}

count=0 command=
while IFS= read -r line; do
    case "$line" in
    *\\) command+="${line%\\} " ;;
    *) run "$command$line"; command=; count=$((count + 1)) ;;
    esac
done < <(sed -n 's/^# RUN: *//p' "$file")
[ $count -gt 0 ] || { echo "$1 has no '# RUN:' line"; exit 1; }
