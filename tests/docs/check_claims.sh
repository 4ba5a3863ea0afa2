#!/bin/sh
# check_claims.sh PAGE - every row of a table "| of ... | shown by |" names tests:
# links to files that meson runs, each followed by names of tests in them.
page=$1
here=$(dirname "$page")
failed=0

fail()
{
    echo "FAIL $page: $*"
    failed=1
}

# A word per line of what shows a row: "row N", then its links and names.
words()
{
    awk -F '|' '
/^\| of / { on = $3 ~ /shown by/; next }
!/^\|/ { on = 0 }
on && !/^\|---/ {
    print "row", NR
    n = split($3, part, /[ ,]+/)
    for (i = 1; i <= n; i++)
        if (part[i] != "")
            print part[i]
}' "$page"
}

# The file of a test is named where meson lists it, here or above, perhaps without
# its ending and its beginning.
is_run()
{
    name=${1##*/}
    stem=${name%.*}
    list=$(dirname "$1")
    [ -f "$list/meson.build" ] || list=$(dirname "$list")
    grep -qE "$name|'${stem}'|'${stem#test_}'" "$list/meson.build"
}

n=0
row=
file=
while read -r word rest; do
    case $word in
    row)
        [ -z "$row" ] || [ -n "$file" ] || fail "line $row names no test"
        row=$rest file='' n=$((n + 1))
        ;;
    \[*\]\(*\))
        target=${word#*\(}
        file=$here/${target%\)}
        [ -f "$file" ] || { fail "line $row: $file is not there"; continue; }
        is_run "$file" || fail "line $row: meson does not run $file"
        ;;
    \`*\`)
        name=${word#?}
        grep -qw "${name%?}" "$file" || fail "line $row: $file has no $name"
        ;;
    *)
        fail "line $row: '$word' is neither a link nor a name of a test"
        ;;
    esac
done <<END
$(words)
END
[ -n "$file" ] || fail "line $row names no test"
[ $n -ge 10 ] || fail "has $n rows that name tests"
exit $failed
