#!/bin/sh
# test_averages.sh AVERAGES - the averaged parameters are the better ones, with
# the optimizer of the program and with one that is asked for.
try()
{
    said=$("$@") || { echo "FAIL $* fails"; exit 1; }
    printf '%s\n' "$said" | awk -v what="$*" '
$0 !~ /^loss [0-9.]+ averaged [0-9.]+$/ { print "FAIL " what ": " $0; bad = 1 }
NR > 1 { now += $2; averaged += $4 }
END {
    if (NR != 4 || !(averaged * 2 < now) || !(averaged < 0.03)) {
        print "FAIL " what ": " now " averaged " averaged
        bad = 1
    }
    exit bad
}' || exit 1
}

try "$1"
try "$1" adamax accumulate=3
said=$("$1" adadelta 2>&1) &&
    { echo "FAIL a schedule for adadelta is not refused"; exit 1; }
case $said in
*'makes its own rate'*) ;;
*) echo "FAIL adadelta says: $said"; exit 1 ;;
esac
