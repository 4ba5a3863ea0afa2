#!/bin/sh
# test_mlp.sh MLP - a line per step, and the cost comes down to ln 2.
said=$("$1" --steps 300) || { echo "FAIL the run fails"; exit 1; }
printf '%s\n' "$said" | awk '
{
    if ($0 !~ /^step[0-9]+ cost=[0-9.]+$/ || $1 != "step" (NR - 1)) {
        print "FAIL not the line of step " (NR - 1) ": " $0
        bad = 1
    }
    sub(/.*=/, "")
    early += NR <= 10 ? $0 : 0
    late += NR > 200 ? $0 : 0
}
END {
    if (NR != 300) {
        print "FAIL 300 steps gave " NR " lines"
        bad = 1
    }
    if (late / 100 >= early / 10 || late / 100 > 0.71) {
        print "FAIL the cost does not fall: " early / 10 " to " late / 100
        bad = 1
    }
    exit bad
}' || exit 1

"$1" --steps many 2>/dev/null
[ $? -eq 2 ] || { echo "FAIL a bad count is not refused"; exit 1; }
