#!/usr/bin/env bash
# check_man.sh TOOL PAGE: mandoc finds nothing wrong with the man page, every option of --help=all has a paragraph
# there, and --help=all has no heading and no option twice.
set -euo pipefail
command -v mandoc >/dev/null || { echo "mandoc was not found (Debian: apt install mandoc)"; exit 77; }
# What scdoc always writes: empty paragraphs, titles in lower case.
found=$(mandoc -T lint -W warning "$2" | grep -v 'skipping paragraph macro' || true)
[ -z "$found" ] || { echo "$found"; exit 1; }
twice=$("$1" --help=all | grep -oE '^([A-Z].*:$| {2,6}(-[a-z], )?--[a-z0-9-]+)' | sort | uniq -d)
[ -z "$twice" ] || { echo "$1 --help=all has twice: $twice"; exit 1; }
page=$(mandoc -T ascii "$2" | sed $'s/.\b//g') # without overstriking
for option in $("$1" --help=all | grep -oE '^ {2,6}(-[a-z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+'); do
    grep -qE -- "^ +(-[a-z], )?$option(=|$)" <<<"$page" || { echo "$2 says nothing about $option"; exit 1; }
done
