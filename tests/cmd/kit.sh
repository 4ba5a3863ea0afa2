# kit.sh - what tests of the command share, for `. kit.sh` at their top. They go on
# in an empty folder, which ends with them, and end with `exit $failed`.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

fail()
{
    echo "FAIL $*"
    failed=1
}

# refuse CODE TEXT ARGUMENTS: `flotilla $subject` with them ends with the code and
# says the text, which is then in ./refused.
refuse()
{
    code=$1 text=$2
    shift 2
    # shellcheck disable=SC2086 # a subject is a list of words
    "$flotilla" $subject "$@" >refused 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "$subject $*: exit code $got, not $code"
    grep -qF -e "$text" refused ||
        fail "$subject $*: '$text' is not in: $(cat refused)"
}
