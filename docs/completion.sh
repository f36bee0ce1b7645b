#!/usr/bin/env bash
# completion.sh TOOL: what bash needs to complete TOOL's command lines, on standard output.
set -euo pipefail
folder=$(dirname "$0")
"$1" --help=table | awk -v tool="$(basename "$1")" -f "$folder/completion.awk" - "$folder/completion.bash"
