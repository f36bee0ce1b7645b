#!/bin/bash
# docs/rules.md ends with a list of every rule that is built in, as tempoc --list-rules prints it.
#     check_rules.sh TEMPOC DOC             compares: prints the difference, exit 1
#     check_rules.sh TEMPOC DOC --bless     writes the list anew; `ninja -C build bless`
set -eu
list=$("$1" --list-rules)
text=$(sed -n '/^```rules$/q; p' "$2"; printf '```rules\n%s\n```\n' "$list"
    sed '1,/^```rules$/d' "$2" | sed '1,/^```$/d')
if [ "${3-}" = --bless ]; then
    printf '%s\n' "$text" > "$2"
else
    diff "$2" <(printf '%s\n' "$text") || { echo "'ninja -C build bless' writes the list of $2 anew"; exit 1; }
fi
