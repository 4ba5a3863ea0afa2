#!/bin/sh
# test_report.sh FLOTILLA FLEETRUN - what runs leave behind, and the page
# that is made of it.
flotilla=$(cd "$(dirname "$1")" && pwd)/flotilla
fleetrun=$(cd "$(dirname "$2")" && pwd)/fleetrun
check=$(cd "$(dirname "$0")" && pwd)/check_page.py
. "$(dirname "$0")/kit.sh"

# expect WHAT FILE PATTERN: a line of the file has it.
expect()
{
    grep -q -- "$3" "$2" || { fail "$1: $2 has no '$3'"; head -c 2000 "$2"; }
}

# refused PATTERN COMMAND...: it fails and says so.
refused()
{
    pattern=$1
    shift
    "$@" >said 2>&1 && fail "'$*' is not refused"
    expect "refused" said "$pattern"
}

train()
{
    "$flotilla" train ctr_dnn --batch 100 --hidden 8 --width 2 "$@" >said 2>&1 ||
        { cat said; fail "train $*"; }
}

"$flotilla" datagen --lines 2000 --out all.txt 2>/dev/null
mkdir parts
split -n l/4 all.txt parts/part

# --- one process ------------------------------------------------------------
train --data parts --test all.txt --epochs 3 --record one --tensorboard board
for type in begin note pass number end; do
    expect "a run tells its $type" one/process.jsonl "^{\"type\":\"$type\",\"time\":"
done
[ "$(grep -c '"type":"pass"' one/process.jsonl)" -ge 6 ] ||
    fail "three epochs and what was held out are fewer than six passes"
expect "an event file" "$(echo board/process/events.out.tfevents.*)" brain.Event:2

"$flotilla" report one -o one.html || fail "report of a run"
python3 "$check" one.html || fail "the page of a run is no page"
for word in 'AUC' 'samples per second' 'Where the time went' 'ctr_dnn' \
    'flotilla 0' 'it came to its end'; do
    expect "the page" one.html "$word"
done
"$flotilla" report one | cmp -s - one.html || fail "stdout is not the same page"

# --- a job ------------------------------------------------------------------
"$fleetrun" --server_num=1 --worker_num=2 "$flotilla" train ctr_dnn --mode async \
    --batch 100 --hidden 8 --width 2 --data parts --test all.txt --epochs 2 \
    --record job --set dump_ir=ir >said 2>&1 ||
    { cat said; fail "a job with a record"; }
for text in worker-0/01-distribute/main/00-input.txt \
    worker-1/01-distribute/server-0/*-dist_server.txt \
    worker-1/0?-startup/00-input.txt worker-0/0?-main/00-input.txt \
    server-0/01-distribute/startup/00-input.txt; do
    # shellcheck disable=SC2086
    [ -s "$(echo ir/$text)" ] || { find ir; fail "dump_ir: no ir/$text"; }
done
for who in worker-0 worker-1 server-0; do
    expect "$who begins" job/$who.jsonl "\"who\":\"$who\""
    expect "$who ends" job/$who.jsonl '^{"type":"end"'
done
expect "a server counts" job/server-0.jsonl '"pushed_rows":'
grep -q '"join_token":"[^(]' job/*.jsonl && fail "the secret of a job is told"
"$flotilla" report job -o job.html || fail "report of a job"
python3 "$check" job.html || fail "the page of a job is no page"
expect "who is slow" job.html 'The slowest is worker-[01], \|No worker is slower'
expect "servers" job.html '<h3>server-0</h3>'

# In step all have one rate; the one that waits least for others is the slowest.
mkdir step
for who in 0:0 1:4 2:4; do
    {
        printf '{"type":"begin","time":0,"format":1,"who":"worker-%s"}\n' ${who%:*}
        printf '{"type":"pass","time":9,"phase":"train","pass":1,"step":9,'
        printf '"samples":800,"seconds":8,"input_seconds":0,"peer_seconds":%s}\n' \
            ${who#*:}
    } >step/worker-${who%:*}.jsonl
done
"$flotilla" report step -o step.html || fail "report of workers in step"
expect "who waits least" step.html 'The slowest is worker-0, 40 % below the mean of 167'

# --- two runs ---------------------------------------------------------------
"$flotilla" report one --compare job -o both.html || fail "report of two runs"
python3 "$check" both.html || fail "the page of two runs is no page"
expect "what differs" both.html '<tr class="other"><td>mode</td>'
expect "curves of both" both.html 'job: worker-1'

# --- what is whole, and what is not -----------------------------------------
printf '{"type":"prog' >>one/process.jsonl
"$flotilla" report one | cmp -s - one.html ||
    fail "a line that is being written changes the page"
mkdir spoilt later headless empty
sed '3s/.*/what?/' job/worker-0.jsonl >spoilt/process.jsonl
refused 'spoilt/process.jsonl:3 is no line of a record' "$flotilla" report spoilt
sed 's/"format":1/"format":2/' job/worker-0.jsonl >later/process.jsonl
refused 'later/process.jsonl:1 was written by a later version' \
    "$flotilla" report later
sed 1d job/worker-0.jsonl >headless/process.jsonl
refused 'headless/process.jsonl:1 comes before a line of type begin' \
    "$flotilla" report headless
refused 'empty has no record: there is no file \*.jsonl; .*--record' \
    "$flotilla" report empty
refused 'cannot read nowhere: No such file' "$flotilla" report nowhere
refused 'which folder?' "$flotilla" report
refused '--try has a table of its trials and no record; leave --record out' \
    "$flotilla" train ctr_dnn --data parts --test all.txt --try width=2,3 --record x
refused "'job' is too much; --compare job sets it beside one" \
    "$flotilla" report one job
refused 'cannot write /nowhere/x.html' "$flotilla" report one -o /nowhere/x.html
refused 'the record of this run: .*/proc/no' "$flotilla" train ctr_dnn \
    --data parts --record /proc/no/such

# A second run in the same folder is the one that counts; one that goes on is
# drawn behind the one before.
train --data parts --epochs 1 --record two
train --data parts --epochs 1 --record two
"$flotilla" report two -o two.html
[ "$(grep -c '>train</td>' two.html)" -eq 1 ] || fail "an old run is in the page"
mkdir again
cat job/worker-0.jsonl job/worker-0.jsonl >again/worker-0.jsonl
"$flotilla" report again -o again.html
[ "$(grep -c '>train</td>' again.html)" -eq 4 ] ||
    fail "of a worker that the launcher started again, the first start is gone"
sed -i 's/"goes_on":false/"goes_on":true/' two/process.jsonl
"$flotilla" report two -o two.html
[ "$(grep -c '>train</td>' two.html)" -eq 2 ] ||
    fail "what a run goes on from is not in the page"
exit $failed
