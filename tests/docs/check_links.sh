#!/bin/sh
# check_links.sh ROOT - links between documents lead somewhere, and every make
# target that the README names exists.
cd "$1" || exit 1
failed=0

# page TARGET per line, for links that stay inside the project.
links()
{
    for page in *.md bench/*.md docs/*.md docs/*/*.md; do
        [ -f "$page" ] || continue
        grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; s/#.*//' |
            grep -v '^http' | sed "/^$/d; s|^|$page |"
    done
}

lost=$(links | while read -r page target; do
    [ -e "$(dirname "$page")/$target" ] ||
        echo "FAIL $page links to $target, which is not there"
done)
if [ -n "$lost" ]; then
    echo "$lost"
    failed=1
fi

for target in $(grep -o '`make [a-z]*' README.md CONTRIBUTING.md |
    sed 's/.*make //' | LC_ALL=C sort -u); do
    grep -qE "^([a-z -]* )?$target( [a-z -]*)?:" Makefile && continue
    echo "FAIL the Makefile has no target $target"
    failed=1
done
exit $failed
