#!/usr/bin/env bash
# check_completion.sh FOLDER-OF-TOOLS FOLDER-OF-COMPLETIONS: what bash offers at the end of some command lines.
set -uo pipefail
PATH=$(realpath "$1"):$PATH
for tool in tempoc tempo-run tempo-train; do
    # shellcheck disable=SC1090
    source "$2/$tool"
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
touch a.onnx b.npz c.json
mkdir inner

failed=0
# Is what bash offers behind these words (the last one in the making, "=" a word of its own) these answers?
offers() { # ANSWERS WORD...
    local answers=$1 got
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    "_$1"
    got=${COMPREPLY[*]-}
    case " $got " in
    "$answers" | *" $answers "*) ;;
    *) echo "FAILED: '$*' is completed to '$got', not to '$answers'"; failed=1 ;;
    esac
}
exactly() { # the same, and to nothing else
    offers "$@"
    [ "${COMPREPLY[*]-}" = "$1" ] || {
        echo "FAILED: '${*:2}' is completed to '${COMPREPLY[*]-}', not just to '$1'"
        failed=1
    }
}
exactly '--recipe= --recompute=' tempoc --rec
exactly '--recipe=' tempoc --reci
exactly '--quiet' tempoc --qui
exactly '--no-quiet' tempoc --no-q
exactly '--cudnn' tempo-run --cu
exactly '--inputs=' tempo-run --inp
exactly 'exact' tempoc --recipe = ex
exactly 'portable' tempoc --recipe po
exactly 'onnx text' tempoc --emit =
exactly 'autodiff' tempoc --print-ir-after = auto
offers 'all' tempoc --explain ''
exactly 'gelu_tanh gelu_tanh_halved gelu_tanh_sigmoid' tempoc --disable = gelu_tanh
exactly 'upgrade,shapes' tempoc --passes = upgrade,sh
exactly 'inner a.onnx' tempoc ''
exactly 'inner b.npz' tempo-run a.onnx -i ''
exactly 'inner b.npz' tempo-run a.onnx --inputs = ''
exactly 'c.json' tempo-run a.onnx --profile = c
exactly 'inner' tempo-run --test-data ''
exactly 'cosine constant' tempo-train --schedule = c
exactly 'sgd' tempo-train a.onnx --optimizer s
exactly 'exact' tempo-train --recipe ex
exactly 'inner' tempo-train --checkpoint ''
exactly '' tempoc a.onnx --loss = x
exit $failed
