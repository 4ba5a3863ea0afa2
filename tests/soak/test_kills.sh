#!/bin/bash
# test_kills.sh FLOTILLA [ROUNDS] - training that saves is killed, or runs out of
# room, at any moment: the model is the old or the new one.
set -u
flotilla=$(realpath "$1")
rounds=${2:-100}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
RANDOM=1

train()
{
    "$flotilla" train ctr_dnn --hidden 8 --data log --set save_keep=2 "$@" \
        >>said 2>&1
}

# verify WHAT: the model that counts is whole, and loads.
verify()
{
    "$flotilla" model verify model >verified 2>&1 || {
        echo "FAIL after $1: $(cat verified)"
        exit 1
    }
}

"$flotilla" datagen --lines 500 --out log 2>/dev/null
train --save model || { cat said; exit 1; }
began=$(date +%s%N)
train --load model --save model --save-kind delta || { cat said; exit 1; }
span=$((($(date +%s%N) - began) / 1000000))

for i in $(seq "$rounds"); do
    kind=$([ $((RANDOM % 2)) = 0 ] && echo full || echo delta)
    if [ $((RANDOM % 2)) = 0 ]; then
        train --load model --save model --save-kind $kind &
        pid=$!
        ms=$((RANDOM % (span + 1)))
        sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        verify "a kill in round $i"
    else
        # Ignored, the signal becomes an error of the write.
        (trap '' XFSZ; ulimit -f $((RANDOM % 1024))
            train --load model --save model --save-kind $kind)
        verify "a limit on files in round $i"
    fi
done
train --load model --save model || { cat said; exit 1; }
verify "the last save"
[ "$(find model -name '*.tmp-*' | wc -l)" = 0 ] ||
    { echo "FAIL leftovers: $(find model)"; exit 1; }
