#!/bin/sh
# test_cmd.sh FLOTILLA [--update] - plays session.txt again and compares.
#
# Each line that starts with "$ " is a command, run here in its folder; what
# it prints follows, stdout and stderr, and its exit code when it is not 0.
# A line that starts with "## " is a remark. --update writes what is printed
# now into session.txt, to be read before it is committed.
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
cd "$(dirname "$0")" || exit 1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
export out

while IFS= read -r line; do
    case $line in
    '## '*)
        printf '%s\n' "$line"
        ;;
    '$ '*)
        printf '%s\n' "$line"
        sh -c "${line#??}" 2>&1 </dev/null
        code=$?
        [ $code -eq 0 ] || echo "[exit $code]"
        echo
        ;;
    esac
done <session.txt >"$out/now"

if [ "$2" = --update ]; then
    cp "$out/now" session.txt
else
    diff -u session.txt "$out/now"
fi
