#!/bin/sh
# check_howto.sh FLOTILLA PAGE... - every ```sh block of a page runs as it
# stands, one after the other, in an empty directory. The examples can be called
# by their names.
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
PATH=$(cd "$(dirname "$1")/../examples" && pwd):$PATH
shift
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export FLOTILLA_RUNTIME_DIR="$dir/run" # jobs of others are not looked at
failed=0

# The blocks, each told before it runs.
script()
{
    echo 'set -e'
    awk -v page="$1" '
/^```/ && on { on = 0 }
on { print; n++ }
$0 == "```sh" { on = 1; print "echo \"# " page ":" NR "\"" }
END { exit n == 0 }' "$1"
}

for page; do
    script "$page" >"$dir/script" ||
        { echo "FAIL $page has no sh block"; failed=1; continue; }
    mkdir "$dir/here"
    (cd "$dir/here" && sh ../script >../said 2>&1 </dev/null) || {
        cat "$dir/said"
        echo "FAIL $page: the block of the last line with # fails"
        failed=1
    }
    rm -r "$dir/here"
done
exit $failed
