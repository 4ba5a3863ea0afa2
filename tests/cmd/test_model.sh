#!/bin/sh
# test_model.sh FLOTILLA - `flotilla model` and `flotilla export` on a model that
# is imported from bytes made here, and on versions of it that were spoilt.
set -eu

flotilla=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# run CODE WORDS...: its output is in $out, both streams.
run() {
    want=$1
    shift
    code=0
    out=$("$flotilla" "$@" 2>&1) || code=$?
    [ "$code" = "$want" ] || fail "$* ended with $code, not $want: $out"
}

says() {
    case $out in
    *"$1"*) ;;
    *) fail "'$out' does not say '$1'" ;;
    esac
}

# A variable w = [1, 2, 3, 4] of shape [2,2], and b = [5] of i64.
variable() { # TYPE DIMS... : the head of a file
    printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    printf "$1"
}
mkdir theirs
{
    variable '\6\0\0\0\10\5\20\2\20\2'
    printf '\0\0\200\77\0\0\0\100\0\0\100\100\0\0\200\100'
} >theirs/w
{
    variable '\4\0\0\0\10\3\20\1'
    printf '\5\0\0\0\0\0\0\0'
} >theirs/b

# --- import and ls
run 0 model import theirs ours
run 0 model ls ours
says "version 000001-"
says ": full, step 0"
says "var w : f32[2,2]"
says "var b : i64[1]"

# --- cat
run 0 model cat ours w
[ "$out" = "1 2
3 4" ] || fail "cat: $out"
run 0 model cat ours w --key 1
[ "$out" = "3 4" ] || fail "cat --key: $out"
run 0 model cat ours w --lines 1
[ "$out" = "1 2" ] || fail "cat --lines: $out"
run 1 model cat ours w --key 2
says "w has 2 rows, there is no row 2"
run 1 model cat ours v
says "has no variable v"

# --- verify and diff
run 0 model verify ours
says ": good"
run 0 model import theirs same
run 0 model diff ours same
[ "$out" = "the same" ] || fail "diff: $out"
printf '\0\0\40\101' | dd of=theirs/w bs=1 seek=38 conv=notrunc 2>/dev/null
rm theirs/b
run 0 model import theirs other
run 1 model diff ours other
says "w[1,1]: 4, then 10; 1 of 4 numbers"
says "b: only the first has it"
says "different: 2 variables, 0 rows"
run 1 model diff other ours
says "b: only the second has it"
run 2 model diff ours nowhere
says "cannot open the model nowhere"

# --- a version that is no delta is copied by merge
run 0 model merge ours merged
run 0 model diff ours merged

# --- a spoilt version
version=$(cat ours/CURRENT)
printf X | dd of="ours/$version/dense.safetensors" bs=1 conv=notrunc \
    seek=$(($(stat -c %s "ours/$version/dense.safetensors") - 1)) 2>/dev/null
run 1 model verify ours
says "dense.safetensors"
run 1 model merge ours again
says "merging ours"

# --- export
run 0 export same --safetensors all.safetensors
[ "$(od -An -tu8 -N8 all.safetensors | tr -d ' ')" -gt 0 ] || fail "export"
run 2 export same
says "--safetensors FILE, --tsv TABLE or --redis ADDRESS?"
run 2 export same --safetensors x -o y
says "-o goes with --tsv"
run 1 export same --tsv emb
says "has no table emb"

# --- one file of all variables
cat theirs/w >all
mkdir one
mv all one/all
run 1 model import one two --params all
says "give their names in the order of the file"
echo w >names
run 0 model import one two --params all --names names
run 0 model cat two w --key 1
[ "$out" = "3 10" ] || fail "one file: $out"
: >none
run 1 model import one two --params all --names none
says "none has no names"
run 1 model import one two --params all --names nowhere
says "cannot read nowhere"

# --- calls that make no sense
run 2 model
says "which action?"
run 2 model lst ours
says "there is no action 'lst'; did you mean ls?"
run 2 model ls
says "ls takes MODEL"
run 2 model ls ours --key 1
says "--key"
run 1 model ls theirs
says "theirs is no model"
run 1 model import nowhere two
says "nowhere"

# --- a place that only a command reaches
mkdir store
cat >copy <<'END'
#!/bin/sh
# copy FROM TO: far:// is the folder store.
exec cp -r "$(echo "$1" | sed "s,^far://,$STORE/,")" \
    "$(echo "$2" | sed "s,^far://,$STORE/,")"
END
chmod +x copy
export STORE="$work/store" FLOTILLA_FS_PUT="$work/copy" \
    FLOTILLA_FS_GET="$work/copy" FLOTILLA_FS_CACHE="$work/cache"
mkdir store/m
run 0 model import theirs far://m
run 0 model ls far://m
says "var w : f32[2,2]"
run 0 model diff other far://m
FLOTILLA_FS_GET= FLOTILLA_FS_CACHE="$work/cache2" run 1 model ls far://m
says "set fs_put and fs_get"
mkdir store/t
run 0 datagen --lines 200 --out day.txt
run 0 train ctr_dnn --data day.txt --batch 50 --hidden 8 --save far://t
program=store/t/$(cat store/t/CURRENT)/program.txt
target=$(sed -n 's/^op softmax .*Out=\([^)]*\)).*/\1/p' "$program")
run 0 predict far://t --data day.txt --format criteo --target "$target" -o scores
[ "$(wc -l <scores)" = 200 ] || fail "predict far://t gave $(wc -l <scores) lines"
unset FLOTILLA_FS_PUT FLOTILLA_FS_GET FLOTILLA_FS_CACHE

# --- a model with a table
run 0 train ctr_dnn --data day.txt --batch 50 --hidden 8 --save trained
run 0 train ctr_dnn --data day.txt --batch 50 --hidden 8 --load trained \
    --save trained --set save_keep=2
run 0 model ls trained
says "beside it"
says "table SparseFeatFactors : "
older=$(ls -d trained/000001-*)
run 0 model cat trained SparseFeatFactors --lines 1
says " full epoch="
says " value="
key=${out%% *}
run 0 model cat trained SparseFeatFactors --key "$key"
says "$key full"
run 1 model cat trained SparseFeatFactors --key 18446744073709551615
says "has no row 18446744073709551615"
run 1 model diff "$older" trained --lines 1000000
says "SparseFeatFactors row $key value[0]: "
run 0 export trained --tsv SparseFeatFactors -o rows.tsv
rows=$(($(wc -l <rows.tsv) - 1))
run 0 model ls trained
says "SparseFeatFactors : $rows rows"
grep -q "^$key	full	" rows.tsv || fail "the export has no row $key"
run 0 model merge trained whole
run 0 model diff trained whole
run 1 export trained --tsv emb
says "has no table emb; it has SparseFeatFactors"
# A job that is not there, and words that are missing.
run 2 model save "$work/job"
says "save needs --from HOST:PORT"
run 2 model save --from 127.0.0.1:1
says "save takes the DIR to save into"
run 1 model save --from 127.0.0.1:1 job --set connect_timeout_ms=200
says "127.0.0.1:1"
run 1 model save --from 127.0.0.1:1 --delta job --set connect_timeout_ms=200
says "127.0.0.1:1"
run 2 model ls theirs --delta
says "ls has no use for --delta"
run 2 model ls theirs --set seed=1
says "ls takes no --set"

# --- a delta has what changed; merged it is a whole model
head -n 10 day.txt >hour.txt
run 0 train ctr_dnn --data hour.txt --batch 5 --hidden 8 --load trained \
    --save trained --save-kind delta
run 0 model ls trained
says ": delta of "
run 1 export trained --safetensors part.safetensors
says "make one of it with \`flotilla model merge\` and export that"
run 0 model merge trained merged_rows
run 0 model ls merged_rows
says ": full, "
says "SparseFeatFactors : $rows rows"
run 0 export merged_rows --safetensors part.safetensors
echo "all good"
