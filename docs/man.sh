#!/usr/bin/env bash
# man.sh TOOL PAGE.scd SCDOC: a man page, its options from TOOL itself, on standard output.
set -euo pipefail
"$1" --help=table | awk -f "$(dirname "$0")/man.awk" - "$2" | "$3"
