#!/bin/sh
# test_demo.sh BUILD - a small demo learns something, says so and leaves nothing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/here"
cd "$dir/here" || exit 1

"$here/demo.sh" "$1" 60000 >"$dir/said" 2>&1 ||
    { echo "FAIL it ends with $?"; cat "$dir/said"; exit 1; }
cat "$dir/said"
awk '
/\(AUC 0/ && !auc { auc = $0; sub(/.*AUC /, "", auc); auc += 0 }
/better than/ { best = $0; sub(/.*AUC /, "", best); best += 0 }
/^Try next/ { next_step++ }
END {
    if (!next_step || auc < 0.55 || auc > best || best > 0.95) {
        print "FAIL AUC " auc " against " best
        exit 1
    }
}' "$dir/said" || exit 1
for left in "$1"/demo.* "$dir"/here/*; do
    [ ! -e "$left" ] || { echo "FAIL it leaves $left"; exit 1; }
done
