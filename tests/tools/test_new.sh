#!/bin/sh
# test_new.sh TOOLS - the skeletons compile as they are and carry the new name.
tools=$1
root=$tools/..
failed=0

# skeleton NAME WANTED COMMAND...: the output has WANTED, and compiles.
skeleton()
{
    name=$1 wanted=$2
    shift 2
    text=$("$@" 2>/dev/null)
    case $text in
    *"$wanted"*)
        printf '%s\n' "$text" | cc -std=c17 -D_GNU_SOURCE -I"$root/src" \
            -I"$root/include" -fsyntax-only -x c - && return
        ;;
    esac
    echo "FAIL $name: $* printed: $text"
    failed=1
}

skeleton an_operator_has_the_new_name 'fl_op_twice = {' \
    "$tools/new-op" twice
skeleton a_pass_has_the_new_name 'fl_pass_opt_fold = {' \
    "$tools/new-pass" opt_fold

for bad in '' 'Two Words' '../x' 9lives; do
    if "$tools/new-op" "$bad" >/dev/null 2>&1 ||
        "$tools/new-pass" "$bad" >/dev/null 2>&1; then
        echo "FAIL a_bad_name_is_refused: '$bad'"
        failed=1
    fi
done

exit $failed
