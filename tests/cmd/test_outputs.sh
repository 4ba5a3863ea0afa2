#!/bin/sh
# test_outputs.sh FLOTILLA - every subcommand that writes a file keeps links,
# devices and pipes what they are, and leaves nothing behind on a full disk.
flotilla=$1
here=$(dirname "$0")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
writers='datagen convert sample draw'

fail()
{
    echo "FAIL $writer: $*" >&2
    failed=1
}

# write PATH: the subcommand $writer, with its output there.
write()
{
    case $writer in
    datagen) "$flotilla" datagen --lines 2000 --threads 1 --out "$1" ;;
    convert) "$flotilla" data convert --slots id:u64:1 --to multislot \
        --threads 1 -o "$1" "$dir/ids" ;;
    sample) "$flotilla" data sample --slots id:u64:1 --to multislot \
        --lines 2000 -o "$1" "$dir/ids" ;;
    draw) "$flotilla" draw -o "$1" "$here/softmax.txt" ;;
    esac 2>"$dir/said"
}

# good PATH: the same, and it says that it went well.
good()
{
    write "$1" || fail "$1: exit code $? and '$(cat "$dir/said")'"
}

# has FILE: it holds what the subcommand writes, and no part is left beside.
has()
{
    cmp "$dir/$writer.want" "$1" >&2 || fail "$1 is not what was to be written"
    [ -z "$(find "$dir" -name '*.tmp-*')" ] || fail "a part is left"
}

seq 5000 | sed 's/^/1 /' >"$dir/ids"
for writer in $writers; do
    good - >"$dir/$writer.want"
    [ "$(wc -c <"$dir/$writer.want")" -gt 2000 ] || fail 'too short to be a test'
done

# a_link_leads_to_the_file_that_is_written
for writer in $writers; do
    mkdir -p "$dir/l/deep"
    echo old >"$dir/l/deep/target"
    ln -sf deep/target "$dir/l/link"
    ln -sf "$dir/l/link" "$dir/l/second"
    good "$dir/l/second"
    [ -L "$dir/l/second" ] && [ -L "$dir/l/link" ] || fail 'a link is replaced'
    has "$dir/l/deep/target"
    rm -r "$dir/l"
done

# a_link_that_dangles_says_where_the_new_file_belongs
for writer in $writers; do
    ln -sf new "$dir/link"
    good "$dir/link"
    [ -L "$dir/link" ] || fail 'the link is replaced'
    has "$dir/new"
    rm "$dir/new" "$dir/link"
done

# the_mode_of_a_file_stays
for writer in $writers; do
    echo old >"$dir/private"
    chmod 600 "$dir/private"
    good "$dir/private"
    [ "$(stat -c %a "$dir/private")" = 600 ] || fail 'others may read it now'
    has "$dir/private"
    rm "$dir/private"
done

# stdout_by_name_is_written_in_its_place (here by a link of our own: a mistake
# must not cost the machine its /dev/stdout)
ln -s /proc/self/fd/1 "$dir/stdout"
for writer in $writers; do
    { echo before; good "$dir/stdout"; echo after; } >"$dir/out"
    { echo before; cat "$dir/$writer.want"; echo after; } | cmp - "$dir/out" ||
        fail 'a file behind stdout is not written in its place'
    good "$dir/stdout" | cmp - "$dir/$writer.want" ||
        fail 'a pipe behind stdout does not get it'
    [ "$(readlink "$dir/stdout")" = /proc/self/fd/1 ] ||
        fail 'the link to stdout is replaced'
    good /dev/stdout | cmp - "$dir/$writer.want" || fail '/dev/stdout fails'
    [ -L /dev/stdout ] || fail '/dev/stdout is no link any more'
done

# a_device_stays_a_device
ln -s /dev/null "$dir/null"
for writer in $writers; do
    good "$dir/null"
    good /dev/null
    [ -L "$dir/null" ] && [ -c /dev/null ] || fail 'a device is replaced'
done

# a_named_pipe_stays_one
mkfifo "$dir/fifo"
for writer in $writers; do
    timeout 60 cat "$dir/fifo" >"$dir/out" &
    good "$dir/fifo"
    wait $!
    [ -p "$dir/fifo" ] || fail 'the pipe is replaced'
    has "$dir/out"
done

# expect_full FILE: the write failed, says so once, and the old file is there.
expect_full()
{
    [ "$(grep -c "cannot write $1: " "$dir/said")" -eq 1 ] ||
        fail "says '$(cat "$dir/said")'"
    grep -q 'or name another file with -' "$dir/said" || fail 'names no option'
    [ -z "$(find "${1%/*}" -name '*.tmp-*' 2>/dev/null)" ] ||
        fail 'a part is left'
}

# a_full_device_is_told
if [ -c /dev/full ]; then
    ln -s /dev/full "$dir/full"
    for writer in $writers; do
        write "$dir/full" && fail 'a full device is no failure'
        expect_full "$dir/full"
        [ -L "$dir/full" ] && [ -c /dev/full ] || fail 'a device is replaced'
    done
fi

# a_file_that_may_not_grow_leaves_the_old_one
for writer in $writers; do
    [ "$writer" != draw ] || continue # the layout itself needs a file
    echo old >"$dir/small"
    (trap '' XFSZ; ulimit -f 1; write "$dir/small") && fail 'no failure'
    expect_full "$dir/small"
    [ "$(cat "$dir/small")" = old ] || fail 'the old file is damaged'
done

# a_full_disk_leaves_the_old_file
mkdir "$dir/disk"
if mount -t tmpfs -o size=4k none "$dir/disk" 2>/dev/null; then
    trap 'umount "$dir/disk"; rm -rf "$dir"' EXIT
    for writer in $writers; do
        echo old >"$dir/disk/small"
        write "$dir/disk/small" && fail 'a full disk is no failure'
        expect_full "$dir/disk/small"
        [ "$(cat "$dir/disk/small")" = old ] || fail 'the old file is damaged'
    done
else
    echo 'skipped: a_full_disk_leaves_the_old_file needs mount'
fi

exit $failed
