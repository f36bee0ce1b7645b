#!/bin/bash
# Fails when a test file was added after Meson had looked for them. Arguments: the files that Meson knows, as
# ./area/name.onnxt.
cd "$(dirname "$0")" || exit 1
missing=$(find . -name '*.onnxt' | grep -vxF -f <(printf '%s\n' "$@"))
[ -z "$missing" ] || { echo "not known to Meson yet: $missing"; echo "run: meson setup --reconfigure build"; exit 1; }
