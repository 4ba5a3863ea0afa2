#!/bin/sh
# test_ctr_demo.sh CTR_DEMO - a small run learns something and says so.
said=$("$1" --samples 60000 --threads 2) ||
    { echo "FAIL the run fails"; exit 1; }
printf '%s\n' "$said" | awk '
/samples\/s/ { progress++ }
/this model/ { model = $3 }
/best possible/ { best = $3 }
/^Next: / { next_step++ }
{ print }
END {
    if (!progress || !next_step) {
        print "FAIL no progress line, or nothing on what comes next"
        exit 1
    }
    if (model < 0.6 || model > best || best > 0.95) {
        print "FAIL held-out AUC " model " against " best
        exit 1
    }
}' || exit 1

"$1" --samples 2>/dev/null
[ $? -eq 2 ] || { echo "FAIL an option alone is not refused"; exit 1; }
