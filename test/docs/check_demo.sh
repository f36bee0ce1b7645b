#!/usr/bin/env bash
# check_demo.sh [PYTHON TEMPOC]: what ./demo does with its arguments; and, with a Python that has onnxruntime, its
# parts: what writes text gives each character the probability that PyTorch's model gives it, BERT-Large is compiled,
# and the table shows its reports. Nothing is installed, built or trained.
set -uo pipefail
python=${1-} tempoc=${2:+$(realpath "$2")} # before the folder changes
cd "$(dirname "$0")/../.." || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

./demo --help >"$folder/help" 2>"$folder/errors" || fail "./demo --help exits $?"
[ -s "$folder/errors" ] && fail "./demo --help says something on standard error"
for word in 'usage: ./demo' --cpu --help build-demo build/py; do
    grep -qF -e "$word" "$folder/help" || fail "./demo --help does not mention $word"
done
for arguments in --nonsense --cpu=yes '--cpu nonsense' '--nonsense --help'; do
    # shellcheck disable=SC2086
    ./demo $arguments >"$folder/out" 2>"$folder/errors"
    code=$?
    [ $code = 64 ] || fail "./demo $arguments exits $code, not 64"
    [ -s "$folder/out" ] && fail "./demo $arguments prints on standard output"
    [ "$(wc -l <"$folder/errors")" = 1 ] || fail "./demo $arguments does not say in one line what is wrong"
done
test/setup.sh --nonsense >"$folder/out" 2>"$folder/errors"
[ $? = 64 ] || fail "test/setup.sh --nonsense does not exit 64"

if [ $# = 2 ]; then
    model=models/train-gpt2/model.onnx
    "$python" - "$model" <<'END' || fail "models/train_write.py has other scores than PyTorch"
import sys

import numpy as np

sys.path.insert(0, "models")
import train_write

data, expected = np.load("models/train-gpt2/data.npz"), np.load("models/train-gpt2/expected.npz")
scores = train_write.load(sys.argv[1])
batch, losses = int(expected["batch"]), []
for ids, labels in zip(data["input_ids"][:batch], data["labels"][:batch]):
    for i, label in enumerate(labels):
        s = scores(list(ids[:i + 1])).astype(np.float64)
        losses.append(np.log(np.exp(s - s.max()).sum()) + s.max() - s[label])
off = abs(np.mean(losses) - expected["loss_double"][0])
sys.exit(f"loss {np.mean(losses)}, PyTorch's {expected['loss_double'][0]}" if off > 1e-5 else 0)
END
    for i in 1 2; do
        "$python" models/train_write.py "$model" --start "And God" --length 40 --width 30 >"$folder/text$i" ||
            fail "models/train_write.py exits $?"
    done
    cmp -s "$folder/text1" "$folder/text2" || fail "models/train_write.py writes another text each time"
    grep -q '^And God' "$folder/text1" || fail "models/train_write.py does not begin with its start"
    "$python" models/train_write.py models/bert-dyn_18/model.onnx >"$folder/out" 2>"$folder/errors" &&
        fail "models/train_write.py writes by a BERT"

    large=models/bert-large-structure/model.onnx
    for recipe in exact tiled; do
        "$tempoc" "$large" --dim batch=32 --recipe=$recipe --report="$folder/$recipe.json" >"$folder/out" 2>&1 ||
            { cat "$folder/out"; fail "$tempoc does not compile $large"; }
        grep -q '394 initializers trained' "$folder/out" || fail "of $large not PyTorch's 394 are trained"
        grep -q 'warning' "$folder/out" && fail "$tempoc warns of $large"
    done
    "$python" models/show_saved.py "exact=$folder/exact.json" "tiled=$folder/tiled.json" >"$folder/table" ||
        fail "models/show_saved.py exits $?"
    [ "$(awk '{ print $1 }' "$folder/table" | xargs)" = 'recipe none exact tiled' ] ||
        { cat "$folder/table"; fail "models/show_saved.py has other rows"; }
    awk 'NR > 2 && $2 >= before { exit 1 } { before = $2 }' "$folder/table" ||
        { cat "$folder/table"; fail "a recipe keeps no less than the one above"; }
fi
exit $failed
