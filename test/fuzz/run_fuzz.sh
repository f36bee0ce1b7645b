#!/bin/sh
# run_fuzz.sh PYTHON MAKE_SEEDS TARGET: makes a seed corpus and runs the target on it for FUZZ_SECONDS. An input that
# crashes it is kept in the build folder, under the name that libFuzzer prints. FUZZ_SEED (default 1) decides the
# mutations: a check that failed fails again, and a hunt for new findings goes over other numbers (0: another one each
# time).
set -e
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
"$1" "$2" "$seeds" "$(basename "$3")"
"$3" "$seeds" -seed="${FUZZ_SEED:-1}" -max_total_time="${FUZZ_SECONDS:-60}" -max_len=65536 -timeout=5 \
    -rss_limit_mb=512 -print_final_stats=1 -verbosity=0 -artifact_prefix="$3-" -dict="$seeds.dict" 2>&1 ||
    { rm -f "$seeds.dict"; exit 1; }
rm -f "$seeds.dict"
