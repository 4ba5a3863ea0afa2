#!/bin/sh
# check_ir_examples.sh FLOTILLA PAGE - every ```ir block of the page is a
# program that reads, and comes back as it is but for comments.
flotilla=$1
page=$2
blocks=$(mktemp -d) || exit 1
trap 'rm -rf "$blocks"' EXIT
failed=0

awk -v dir="$blocks" '
/^```/ { on = 0 }
on { print >file }
$0 == "```ir" { file = dir "/" (on = NR + 1) }' "$page"

for block in "$blocks"/*; do
    [ -f "$block" ] || { echo "FAIL $page has no ir block"; exit 1; }
    where=$page:${block##*/}
    "$flotilla" dump - <"$block" >"$blocks/printed" || {
        echo "FAIL $where: the block does not read"
        failed=1
        continue
    }
    grep -v '^#' "$block" | diff - "$blocks/printed" || {
        echo "FAIL $where: the block comes back changed"
        failed=1
    }
    rm "$blocks/printed"
done
exit $failed
