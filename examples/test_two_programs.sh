#!/bin/sh
# test_two_programs.sh TWO_PROGRAMS - the second program has the operators that
# were appended, and the parameters that the first has learnt.
said=$("$1") || { echo "FAIL the run fails"; exit 1; }
want='op mul X=x Y=line.w_0
op elementwise_add X=xw Y=line.b_0
weights 2.00 -3.00
predicted 0.125, is 0.125'
[ "$said" = "$want" ] && exit 0
printf 'FAIL it says\n%s\ninstead of\n%s\n' "$said" "$want"
exit 1
