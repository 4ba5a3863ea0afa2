#!/bin/sh
# test_new.sh FLOTILLA FLEETRUN INCLUDE LIB PYTHONPATH - a new project trains as it
# is written: in C and, where Python has numpy, in Python; alone, as a job, and
# its model predicts.
set -u
flotilla=$(realpath "$1") fleetrun=$(realpath "$2")
include=$3 lib=$4
PYTHONPATH=$5
export PYTHONPATH
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
mkdir bin
ln -s "$flotilla" bin/flotilla
ln -s "$fleetrun" bin/fleetrun
# Stands for the installed library.
cat >bin/pkg-config <<END
#!/bin/sh
case \$1 in --cflags) echo "-I$include" ;; *) echo "-L$lib -lflotilla" ;; esac
END
chmod +x bin/pkg-config
PATH=$dir/bin:$PATH
export PATH LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail()
{
    echo "FAIL $*"
    exit 1
}

# refuse WORDS CODE ARG... - it ends with the code and says the words.
refuse()
{
    words=$1 code=$2
    shift 2
    flotilla new "$@" >said 2>&1
    [ $? -eq "$code" ] || fail "new $*: another exit code than $code"
    grep -q -- "$words" said || fail "new $*: $(cat said)"
}

refuse "a kind and a name" 2
refuse "nearest is ctr" 2 cdr x
refuse "cannot be a name" 2 ctr "a b"
refuse "cannot make the folder" 1 ctr nowhere/x
refuse "cannot make the folder" 1 ctr bin

# small PROJECT - less data than the Makefile would make.
small()
{
    mkdir -p "$1/data/train" "$1/data/test"
    for part in a b; do
        flotilla datagen --lines 3000 --out "$1/data/train/$part" \
            --first "$([ $part = a ] && echo 0 || echo 3000)" 2>/dev/null
        flotilla datagen --lines 500 --out "$1/data/test/$part" \
            --first "$([ $part = a ] && echo 6000 || echo 6500)" 2>/dev/null
    done
}

# try PROJECT - `make`, `make job`, `make predict` as its README says.
try()
{
    small "$1"
    for what in train job predict; do
        make -C "$1" $what >said 2>&1 || fail "$1: make $what: $(cat said)"
        ! grep -q ' warning: ' said || fail "$1: make $what warns: $(cat said)"
        [ $what = predict ] || grep -q AUC said ||
            fail "$1: make $what does not judge: $(cat said)"
    done
    [ "$(wc -l <"$1/scores")" -eq 1000 ] || fail "$1: not a score per line"
    ! grep -rq '@NAME@' "$1" || fail "$1: a mark is left"
}

flotilla new ctr my_model >said || fail "new: $(cat said)"
grep -q "cd my_model" said || fail "the next step is not told: $(cat said)"
try my_model

python=${PYTHON:-/usr/bin/python3}
if $python -c 'import flotilla, numpy' 2>/dev/null; then
    flotilla new ctr sub-1 --python >said || fail "new: $(cat said)"
    sed -i "s|^PYTHON ?=.*|PYTHON ?= $python|" sub-1/Makefile
    try sub-1
else
    echo "skipped: $python has no numpy, or the package was not built"
fi
exit 0
