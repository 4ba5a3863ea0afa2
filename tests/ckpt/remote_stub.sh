#!/bin/sh
# remote_stub.sh STORE put LOCAL URL | STORE get URL LOCAL - stands for
# `hdfs dfs -put` and the like: copies to and from a folder, and does the next
# thing that the file STORE/faults asks for, one word a line:
#   ok, fail, lose (says that all is well), truncate, double, flip, part
# As the real ones it puts a folder into one that is there already.
store=$1 verb=$2 from=$3 to=$4
fault=$(head -n 1 "$store/faults" 2>/dev/null)
sed -i 1d "$store/faults" 2>/dev/null
echo "$verb ${fault:-ok}" >>"$store/log"

case $fault in
fail)
    echo "stub: the name node is in safe mode" >&2
    exit 3
    ;;
lose) exit 0 ;;
esac
if [ "$verb" = put ]; then
    to=$store/${to#stub://}
    mkdir -p "${to%/*}"
    if [ -d "$to" ]; then to=$to/${from##*/}; fi
else
    from=$store/${from#stub://}
fi
cp -r "$from" "$to" || exit 4

each() { find "$to" -type f | while read -r f; do "$@" "$f"; done; }
halve() { truncate -s $(($(stat -c %s "$1") / 2)) "$1"; }
double() { cat "$1" "$1" >"$1.twice" && mv "$1.twice" "$1"; }
flip() { printf X | dd of="$1" bs=1 conv=notrunc seek=$(($(stat -c %s "$1") - 2)) 2>/dev/null; }
case $fault in
truncate) each halve ;;
double) each double ;;
flip) each flip ;;
part) rm "$(find "$to" -type f | sort | tail -n 1)" ;;
esac
exit 0
