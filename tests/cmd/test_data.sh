#!/bin/sh
# test_data.sh FLOTILLA - `flotilla data` reads, counts, checks, converts and
# samples, and says what is wrong where something is.
PATH=$(cd "$(dirname "$1")" && pwd):$PATH
. "$(dirname "$0")/kit.sh"

# expect CODE ARGUMENTS: `flotilla data` ends with the code; see ./out, ./err.
expect()
{
    code=$1
    shift
    flotilla data "$@" >out 2>err </dev/null
    got=$?
    [ $got -eq "$code" ] ||
        fail "data $*: exit code $got, not $code: $(cat out err)"
}

# same FILE: what was printed is what stands on stdin.
same()
{
    diff -u - "$1" || fail "$1 is not as expected"
}

# has FILE TEXT
has()
{
    grep -qF -e "$2" "$1" || fail "'$2' is not in $1: $(cat "$1")"
}

slots='click:u64:1 item:u64 x:float:2'
cat >good.txt <<END
1 1 2 7 9 2 0.5 -3
1 0 1 18446744073709551615 2 0 1e+10
1 1 3 7 7 8 2 0.1 0
END
cp good.txt bad.txt
cat >>bad.txt <<END
1 1 2 7 seven 2 0.5 -3
1 1
END

# print_shows_the_first_records_by_name
expect 0 print --slots "$slots" --lines 2 good.txt
same out <<END
click=1 item=7,9 x=0.5,-3
click=0 item=18446744073709551615 x=0,1e+10
END

# print_shows_them_in_another_format
expect 0 print --slots "$slots" --lines 1 --to multislot good.txt
head -n 1 good.txt | same out

# print_reads_stdin_and_through_a_command
flotilla data print --slots "$slots" - <good.txt >out
[ "$(wc -l <out)" -eq 3 ] || fail "stdin has $(wc -l <out) records"
expect 0 print --slots "$slots" --pipe 'sed 1,2d' good.txt
same out <<END
click=1 item=7,7,8 x=0.1,0
END

# vocab_counts_words_and_word2vec_reads_them
printf 'the cat and the dog\nThe bird\n' >words.txt
expect 0 vocab --min-count 1 -o words.vocab words.txt
same words.vocab <<END
<UNK> 4
the 3
END
expect 0 vocab --min-count 0 -o words.vocab words.txt
has err '6 words'
expect 0 count --format word2vec:vocab=words.vocab,negatives=2 words.txt
expect 2 vocab --min-count -1 words.txt
expect 2 vocab words.txt
has err 'vocab needs -o FILE'
expect 1 vocab -o words.vocab nowhere.txt
has err nowhere.txt

# statistics_are_the_same_with_any_number_of_threads
awk 'BEGIN { for (i = 0; i <= 1000; i++) print (i * 5 % 1001) "," i % 3 "," }' \
    >even.csv
for threads in 1 3; do
    expect 0 count --format csv:columns='x:float "q:id gone:float(nan)' \
        --threads $threads --batch 10 --stats stats.$threads even.csv
done
# Means that were added up in another order differ in their last digits.
for threads in 1 3; do
    sed 's/"mean": [^,]*, "deviation": [^,]*//' stats.$threads >cut.$threads
done
cmp cut.1 cut.3 || fail 'statistics depend on threads'
has stats.1 '"version": 1, "records": 1001'
has stats.1 '"x": {"kind": "float", "values": 1001, "missing": 0, "zeros": 1, "least": 0, "most": 1000, "mean": 500'
has stats.1 '"deviation": 288.96'
has stats.1 '"quantiles": [0,1,2,3,'
has stats.1 ',998,999,1000]'
has stats.1 '"\u0022q": {"kind": "id", "values": 1001, "zeros": 334, "distinct": 3}'
has stats.1 '"gone": {"kind": "float", "values": 0, "missing": 1001, "zeros": 0}'
expect 1 count --format 'csv:columns=x:float *' --stats no/where even.csv
expect 2 print --format csv:columns=x:float --stats stats even.csv
rm stats.* cut.* even.csv

# features_are_listed
expect 0 features
has out 'standard(x, mean=M, deviation=D)'
expect 0 features hour
has out 'hour(t, zone=0)'
expect 1 features hours
has err 'there is no feature '\''hours'\''; `flotilla data features` lists them'
expect 2 features hour day

# count_tells_what_the_slots_hold
for threads in 1 3; do
    expect 0 count --slots "$slots" --threads $threads --batch 1 good.txt
    sed 's/  */ /g' out >counted
    same counted <<END
files 1 (empty 0, from the cache 0)
lines 3
records 3
bad lines 0
bytes $(wc -c <good.txt)

slot kind fewest mean most values zeros distinct least mean largest
click u64 1 1.00 1 3 33.33 % 2
item u64 1 2.00 3 6 0.00 % 4
x float 2 2.00 2 6 33.33 % - -3 1.66667e+09 1e+10

distinct is an estimate with a standard error of 0.8 %.
END
done

# many_ids_are_estimated_within_the_error
seq 100000 | sed 's/.*/1 &/' >ids.txt
expect 0 count --slots id:u64:1 --threads 2 ids.txt
awk '$1 == "id" {
    found = 1
    if ($9 < 97500 || $9 > 102500) { print "FAIL distinct: " $0; bad = 1 }
}
END { exit bad || !found }' out || failed=1

# check_tells_good_from_bad_from_broken
expect 0 check --slots "$slots" good.txt
same out <<END
good: 3 records in 3 lines of 1 files
END
expect 1 check --slots "$slots" bad.txt
has out 'bad.txt:4:item: '
has out '    1 1 2 7 seven 2 0.5 -3'
has out 'bad.txt:5:item: '
has out 'bad: 2 of 5 lines; a job with max_bad_lines=1000 and max_bad_share'
has out 'would end with an error'
[ ! -s err ] || fail "check says something on stderr: $(cat err)"
FLOTILLA_MAX_BAD_SHARE=0.01 flotilla data check --slots "$slots" bad.txt >out
has out 'would go on without them'
expect 1 check --slots "$slots" --lines 1 --quarantine kept bad.txt
has out 'all of them are in kept'
[ "$(wc -l <kept)" -eq 2 ] || fail "the quarantine file has not both lines"
grep -q seven out || fail "the first bad line is not shown"
[ "$(grep -c 'bad.txt:' out)" -eq 1 ] || fail "--lines 1 shows more"
[ ! -e flotilla.quarantine ] || fail "check leaves a quarantine file behind"
expect 2 check --slots "$slots" nowhere.txt
has err nowhere.txt
head -c 30 good.txt | gzip | head -c 20 >cut.gz
expect 2 check --slots "$slots" cut.gz
has err cut.gz

# convert_comes_back_as_it_was
expect 0 convert --slots "$slots" --to multislot -o copy.txt good.txt
cmp good.txt copy.txt || fail "convert changes multislot"
[ -z "$(find . -name '*.tmp-*')" ] || fail "the part is still there"
expect 0 convert --slots "$slots" --to multislot -o copy.txt copy.txt
cmp good.txt copy.txt || fail "a file cannot be converted in its place"
expect 0 convert --slots "$slots" --to multislot good.txt
cmp good.txt out || fail "convert to stdout changes multislot"

# many_threads_lose_no_record
expect 0 convert --slots id:u64:1 --to multislot --threads 4 --batch 7 \
    -o many.txt ids.txt
LC_ALL=C sort ids.txt >sorted
LC_ALL=C sort many.txt | cmp - sorted || fail "4 threads change the records"

# sample_is_seeded_and_in_order
expect 0 sample --slots id:u64:1 --to multislot --lines 100 -o hundred ids.txt
[ "$(wc -l <hundred)" -eq 100 ] || fail "sample --lines 100 is another number"
sort -k 2n hundred | cmp - hundred || fail "the sample is not in order"
expect 0 sample --slots id:u64:1 --to multislot --lines 100 ids.txt
cmp out hundred || fail "the same seed gives another sample"
expect 0 sample --slots id:u64:1 --to multislot --lines 100 --seed 1 ids.txt
cmp -s out hundred && fail "another seed gives the same sample"
expect 0 sample --slots id:u64:1 --to multislot --lines 200000 ids.txt
cmp out ids.txt || fail "a sample of more than all is not all"
expect 0 sample --slots id:u64:1 --to multislot --share 0.1 ids.txt
n=$(wc -l <out)
[ "$n" -gt 9500 ] && [ "$n" -lt 10500 ] || fail "a tenth is $n of 100000"

# a_cache_is_used_the_second_time
mkdir cache
expect 0 count --slots "$slots" --cache cache good.txt
has out 'from the cache 0'
expect 0 count --slots "$slots" --cache cache good.txt
has out 'from the cache 1'

# formats_are_listed
expect 0 formats
has out multislot
has out criteo
expect 0 formats multislot
has out multislot
expect 1 formats mulltislot
has err "there is no format 'mulltislot'"

# criteo_lines_of_datagen_are_all_good
flotilla datagen --lines 3000 --out clicks.txt 2>said
expect 0 check --format criteo clicks.txt
has out 'good: 3000 records in 3000 lines'
flotilla datagen --lines 3000 --format multislot --out clicks.slots 2>said
columns=$(seq 26 | sed 's/.*/C&:u64:1/')
expect 0 check --slots "dense:float:13 $columns click:u64:1" clicks.slots
has out 'good: 3000 records in 3000 lines'

# a_job_over_its_limit_ends_and_leaves_no_output
FLOTILLA_QUARANTINE= FLOTILLA_MAX_BAD_LINES=1 flotilla data convert \
    --slots "$slots" --to multislot -o none.txt bad.txt >out 2>err &&
    fail "two bad lines of one allowed are fine"
has err 'max_bad_lines=1'
[ -z "$(find . -name 'none.txt*')" ] || fail "half an output is left"

# failures_name_the_thing_and_the_next_step
expect 1 print --slots "$slots" nowhere.txt
has err nowhere.txt
expect 1 print --format multisolt --slots "$slots" good.txt
has err 'multislot'
expect 1 print good.txt
has err '--slots names them'
expect 1 convert --slots "$slots" --to nothing good.txt
has err '--to nothing'
expect 1 convert --slots "$slots" --to multislot -o /nowhere/x good.txt
has err 'name another file with -o'
if [ -c /dev/full ]; then
    expect 1 convert --slots id:u64:1 --to multislot -o /dev/full ids.txt
    has err 'cannot write /dev/full'
    flotilla data convert --slots id:u64:1 --to multislot ids.txt \
        >/dev/full 2>err && fail "a full stdout is no failure"
    [ "$(grep -c 'cannot write stdout' err)" -eq 1 ] ||
        fail "a full stdout is told so: $(cat err)"
fi

# wrong_usage_is_refused
expect 2
has err 'which action?'
has err 'usage: flotilla data'
expect 2 show good.txt
has err "there is no action 'show'"
expect 2 print --slots "$slots"
has err 'which files?'
expect 2 print --slot "$slots" good.txt
has err "there is no option '--slot'"
expect 2 print --slots 'a:int' good.txt
has err 'word 1 is not NAME:u64'
expect 2 print --slots 'a:u64 b:float:-1' good.txt
has err 'word 2 is not NAME:u64'
expect 2 print --slots ' ' good.txt
has err 'names no slot'
expect 2 print --threads 2 --slots "$slots" good.txt
has err 'print has no use for --threads'
expect 2 check --cache cache --slots "$slots" good.txt
has err 'check has no use for --cache'
expect 2 print -
has err 'stdin needs --slots'
expect 2 convert --slots "$slots" good.txt
has err 'convert needs --to FORMAT'
expect 2 sample --slots "$slots" --to multislot good.txt
has err 'one of them'
expect 2 sample --slots "$slots" --to multislot --lines 1 --share 1 good.txt
has err 'one of them'
expect 2 sample --share 1.5 good.txt
has err "--share needs a share in 0..1, not '1.5'"
expect 2 formats multislot csv
has err "'csv' is too much"
exit $failed
