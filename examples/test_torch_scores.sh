#!/bin/sh
# test_torch_scores.sh SCRIPT FLOTILLA - the scores that PyTorch computes from an
# exported model have the log loss that the trainer printed. Where there is no
# PyTorch, a stand-in of plain Python for the functions that the script calls
# computes them, so that export and script are tested in any case.
script=$1
flotilla=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
python3 -c 'import json' || { echo "SKIP there is no python3"; exit 77; }

"$flotilla" datagen --lines 300 --out day.txt 2>/dev/null || exit 1
head -n 4 day.txt >few.txt
"$flotilla" train ctr_dnn --data day.txt --test few.txt --batch 50 --save model \
    >said 2>&1 || { cat said; exit 1; }
"$flotilla" export model --safetensors model.safetensors || exit 1
"$flotilla" data convert --format criteo --to multislot few.txt -o lines.txt ||
    exit 1

if ! python3 -c 'import torch' 2>/dev/null; then
    echo "there is no torch: a stand-in computes the scores"
    cat >torch.py <<'END'
import math, struct

float32, float64, int64 = "f", "d", "q"

class Tensor:
    def __init__(self, flat, shape):
        self.flat, self.shape = flat, shape
    def reshape(self, shape):
        return Tensor(self.flat, shape)
    def tolist(self):
        return list(self.flat)
    def item(self):
        return self.flat[0]
    def __getitem__(self, i):
        n = self.shape[1] if len(self.shape) > 1 else 1
        return Tensor(self.flat[i * n:i * n + n], [n])
    def __matmul__(self, w):
        n = w.shape[1]
        out = [0.0] * n
        for i, x in enumerate(self.flat):
            if x:
                out = [o + x * v for o, v in zip(out, w.flat[i * n:i * n + n])]
        return Tensor(out, [n])
    def __add__(self, b):
        return Tensor([x + y for x, y in zip(self.flat, b.flat)], self.shape)

def frombuffer(data, dtype):
    n = len(data) // struct.calcsize("<" + dtype)
    return Tensor(struct.unpack("<%d%s" % (n, dtype), data), [n])
def tensor(values):
    return Tensor(values, [len(values)])
def cat(parts):
    return tensor([x for p in parts for x in p.flat])
def relu(x):
    return tensor([max(v, 0.0) for v in x.flat])
def softmax(x, dim):
    e = [math.exp(v - max(x.flat)) for v in x.flat]
    return tensor([v / sum(e) for v in e])
END
fi
PYTHONPATH=. python3 "$script" model.safetensors lines.txt >scores ||
    { echo "FAIL the script fails"; exit 1; }
want=$(sed -n 's/^held out: .*log loss \([0-9.]*\).*/\1/p' said)
cut -f 1 few.txt | paste - scores | awk -v want="$want" '
{ sum -= log($1 ? $2 : 1 - $2) }
END {
    got = sum / NR
    if (NR != 4 || want == "" || got - want > 0.0001 || want - got > 0.0001) {
        print "FAIL " NR " scores have a log loss of " got ", not " want
        exit 1
    }
}'
