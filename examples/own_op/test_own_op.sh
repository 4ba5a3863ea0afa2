#!/bin/sh
# test_own_op.sh ROOT BUILD PREFIX - what is our own is built against the
# installed library, passes the sweep, trains, and is opened by the commands.
set -u
root=$1 build=$2 prefix=$3
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT

fail()
{
    echo "FAIL $*"
    exit 1
}

DESTDIR=$stage "$root/tools/meson" install -C "$build" --no-rebuild \
    >"$stage/said" 2>&1 || { cat "$stage/said"; exit 1; }
lib=$stage$prefix/lib
sed "s|^prefix=.*|prefix=$stage$prefix|" "$lib/pkgconfig/flotilla.pc" \
    >"$stage/flotilla.pc"
export PKG_CONFIG_PATH="$stage" LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
PATH=$stage$prefix/bin:$PATH

cp "$root"/examples/own_op/*.[ch] "$root"/examples/own_op/Makefile "$stage" ||
    exit 1
cd "$stage" || exit 1
make >built 2>&1 || { cat built; fail "it does not build"; }
! grep -q warning built || { cat built; fail "it has warnings"; }

# Odd ids come with clicks, mostly.
awk 'BEGIN {
    srand(7)
    for (i = 0; i < 2000; i++) {
        a = int(rand() * 1000); b = int(rand() * 1000); c = int(rand() * 1000)
        odd = a % 2 + b % 2 + c % 2
        print (odd > 1 ? 1 : 0) " " a "," b "," c
    }
}' >log.txt

./train log.txt >said || fail "it does not train"
awk '$1 == 2000 && $NF > 0.8 { good = 1 } END { exit !good }' said ||
    fail "it learnt: $(cat said)"

flotilla ops --set plugins=./libown.so --sweep squash >said 2>&1 ||
    fail "the sweep: $(cat said)"
flotilla ops --set plugins=./libown.so sign_mean | grep -q MomentOut ||
    fail "the rule has no operator"
FLOTILLA_PLUGINS=./libown.so flotilla data print --format comma_ids log.txt \
    >said 2>&1 || fail "the format: $(cat said)"
echo "2 1,2" >bad.txt
FLOTILLA_PLUGINS=./libown.so flotilla data check --format comma_ids bad.txt \
    2>&1 | grep -q "does not begin with 0 or 1" ||
    fail "a bad line is not told with the format's own words"

# Servers of a job update rows and blocks by our rule.
mkdir logs
flotilla datagen --lines 2000 --out logs/a 2>said &&
    flotilla datagen --lines 2000 --first 2000 --out logs/b 2>said ||
    fail "datagen: $(cat said)"
FLOTILLA_PLUGINS=$PWD/libown.so fleetrun --server_num=1 --worker_num=2 \
    flotilla train ctr_dnn --format criteo --data logs --optimizer sign_mean \
    --learning-rate 0.0005 >said 2>&1 || fail "the job: $(cat said)"
grep -q "4000 samples" said || fail "the job trained: $(cat said)"
flotilla train ctr_dnn --format criteo --data logs --optimizer sign_mean \
    >said 2>&1 && fail "a rule that is not there is taken"
grep -q "no optimizer is called 'sign_mean'" said ||
    fail "a missing rule is not told: $(cat said)"

# A mistake in the operator is found.
sed 's/-1\.5)/-1.4)/' own.c >wrong.c
# shellcheck disable=SC2046
${CC:-cc} -fPIC -shared -fvisibility=hidden -o libwrong.so wrong.c \
    $(pkg-config --cflags --libs flotilla) -lm || exit 1
flotilla ops --set plugins=./libwrong.so --sweep squash >said 2>&1 &&
    fail "a wrong gradient passes the sweep"
grep -q "gradients equal central differences" said ||
    fail "the sweep does not say what is wrong: $(cat said)"

# Libraries that are none.
flotilla ops --set plugins=./nowhere.so >said 2>&1 && fail "nowhere is opened"
grep -q "setting plugins" said && grep -q nowhere.so said ||
    fail "a missing library is not named: $(cat said)"
echo 'int x;' >x.c && ${CC:-cc} -fPIC -shared -o libx.so x.c
flotilla ops --set plugins=./libx.so >said 2>&1 && fail "a stranger is opened"
grep -q "no function flotilla_plugin" said ||
    fail "a stranger is not told: $(cat said)"
exit 0
