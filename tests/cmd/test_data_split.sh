#!/bin/sh
# test_data_split.sh FLOTILLA - `flotilla data split`: every line is in one part,
# as it is; the part is that of split= in a data set; keys, times, files.
set -u
flotilla=$(realpath "$1")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "test_data_split: $*" >&2
    exit 1
}

split()
{
    "$flotilla" data split "$@" >told.txt 2>error.txt ||
        fail "split $*: $(cat error.txt)"
}

refused()
{
    said=$1
    shift
    "$flotilla" data split "$@" >told.txt 2>error.txt && fail "accepted: $*"
    grep -qF -e "$said" error.txt || fail "'$said' is not in: $(cat error.txt)"
}

awk 'BEGIN { print "click,user,hour,item"
    for (i = 0; i < 5000; i++)
        printf "%d,\"u, %d\",%d,i%d\n", i % 7 == 0, i % 83, i * 37 % 5000 / 100, i
}' >all.csv
csv='csv:columns=click:id user:hash hour:id item:hash,header=yes'

# lines_are_as_they_are_and_in_one_part
split --parts train=0.8,valid=0.1,test=0.1 --header -o '{}.csv' all.csv
printf 'train.csv\t%d lines\n' "$(($(wc -l <train.csv) - 1))" >expected.txt
head -n 1 told.txt | cmp - expected.txt || fail "$(cat told.txt)"
for part in train valid test; do
    head -n 1 $part.csv | cmp - - <<END || fail "$part has no header"
click,user,hour,item
END
    tail -n +2 $part.csv
done | sort >joined.txt
tail -n +2 all.csv | sort | cmp - joined.txt || fail "lines are lost or changed"
[ "$(wc -l <train.csv)" -gt 3850 ] && [ "$(wc -l <train.csv)" -lt 4150 ] ||
    fail "train has $(wc -l <train.csv) lines"

# parts_are_those_of_a_data_set
for part in train:0-80 valid:80-90 test:900-1000/1000; do
    "$flotilla" data convert --format "$csv" --to 'csv:columns=click:id user:id hour:id item:id' \
        "${part%%:*}.csv" >one.txt || fail "convert"
    "$flotilla" data convert --format "$csv,split=${part#*:}" \
        --to 'csv:columns=click:id user:id hour:id item:id' all.csv >two.txt ||
        fail "convert a part"
    cmp one.txt two.txt || fail "${part%%:*} is another part"
done

# the_order_and_number_of_files_change_nothing
{ head -n 1 all.csv; tail -n +2 all.csv | sort -t, -k5 | tail -n 2000; } >a.csv
{ head -n 1 all.csv; tail -n +2 all.csv | sort -t, -k5 | head -n 3000; } >b.csv
split --parts train=0.8,rest=0.2 --header -o 'again-{}.csv' a.csv b.csv
sort train.csv >one.txt
sort again-train.csv | cmp - one.txt || fail "files change parts"

# gzip_is_read_and_written
gzip -k a.csv b.csv
split --parts train=0.8,rest=0.2 --header -o 'again-{}.csv.gz' a.csv.gz b.csv.gz
gzip -dc again-train.csv.gz | cmp - again-train.csv || fail "gzip"
split --parts train=1 -o '{}.copy.gz' train.csv
gzip -dc train.copy.gz | cmp - train.csv || fail "all of it"

# lines_of_one_key_stay_together
split --parts x=0.5,y=0.5 --format "$csv" --key user -o 'key-{}.csv' all.csv
for part in x y; do
    tail -n +2 key-$part.csv | cut -d, -f2,3 | sort -u >users-$part.txt
    [ -s users-$part.txt ] || fail "$part has no user"
done
comm -12 users-x.txt users-y.txt | grep -q . && fail "users are in two parts"
[ "$(cat users-x.txt users-y.txt | wc -l)" = 83 ] || fail "users are lost"
"$flotilla" data count --format "$csv,split=0-50,key=user" all.csv >count.txt ||
    fail "count"
grep -q "records *$(($(wc -l <key-x.csv) - 1))" count.txt ||
    fail "a key's part is another one: $(cat count.txt) $(wc -l key-x.csv)"

# parts_follow_each_other_in_time
split --parts old=0.7,new=0.3 --format "$csv" --time hour -o 'time-{}.csv' all.csv
awk -F, 'FNR > 1 && FILENAME == "time-old.csv" && $4 > most { most = $4 }
    FNR > 1 && FILENAME == "time-new.csv" && $4 <= most { exit bad = 1 }
    END { exit bad }' time-old.csv time-new.csv || fail "times are mixed"
[ "$(wc -l <time-old.csv)" = 3501 ] || fail "$(wc -l time-old.csv)"

# lines_of_one_time_stay_together_as_near_to_the_share_as_that_allows
printf '%s\n' 1,1 2,1 3,1 4,1 5,2 6,2 7,2 8,2 9,2 10,3 >coarse.csv
split --parts old=0.8,new=0.2 --format 'csv:columns=n:id t:id' --time t \
    -o 'coarse-{}.csv' coarse.csv
[ "$(cut -d, -f1 coarse-new.csv)" = 10 ] || fail "$(cat coarse-new.csv)"
split --parts old=0.5,new=0.5 --format 'csv:columns=n:id t:id' --time t \
    -o 'coarse-{}.csv' coarse.csv
[ "$(wc -l <coarse-old.csv)" = 4 ] || fail "$(cat coarse-old.csv)"

# whole_files_in_their_order
for i in 1 2 3 4 5; do echo "line $i" >day-$i; done
split --parts train=0.8,test=0.2 --by-file -o 'days-{}' 'day-*'
printf 'line %d\n' 1 2 3 4 | cmp - days-train || fail "$(cat days-train)"
printf 'line 5\n' | cmp - days-test || fail "$(cat days-test)"

# ends_of_lines_stay
printf 'a\r\nb\n\nc' >ends
split --parts all=1 -o 'ends-{}' ends
printf 'a\r\nb\n\nc\n' | cmp - ends-all || fail "ends of lines"

# what_cannot_be_split_is_refused
refused "needs --parts" -o '{}' all.csv
refused "needs -o PATTERN" --parts a=1 all.csv
refused "needs -o PATTERN" --parts a=1 -o out all.csv
refused "part 2 is not NAME=SHARE" --parts a=0.5,b -o '{}' all.csv
refused "the shares of the parts make 0.9, not 1" --parts a=0.5,b=0.4 -o '{}' all.csv
refused "two parts are to be written to a" --parts a=0.5,a=0.5 -o '{}' all.csv
refused "a share of 0 is no part" --parts a=0,b=1 -o '{}' all.csv
refused "user is a column of what?" --parts a=1 --key user -o '{}' all.csv
refused "give one of them" --parts a=1 --key user --by-file -o '{}' --format "$csv" all.csv
refused "write usr:skip" --parts a=1 --key usr -o '{}' --format "$csv" all.csv
refused "there is no slot day" --parts a=1 --time day -o '{}' --format "$csv" all.csv
refused "another header" --parts a=1 --header -o '{}' all.csv day-1
refused "nowhere" --parts a=1 -o '{}' nowhere.csv
[ ! -e a ] || fail "a part of something that failed is there"
exit 0
