# model_kit.sh - a job that saves models, for tests that compare their bits. The
# caller has set fleetrun, flotilla and goes_on.
. "$(dirname "$0")/kit.sh"

mkdir "$dir/data"
for worker in 0 1; do
    for part in 0 1; do
        awk -v w=$worker -v p=$part 'BEGIN {
            for (i = 0; i < 1000; i++) {
                k = (w * 2 + p) * 1000 + i
                print "1 " k * 7 % 331 " 1 " k * 5 % 97 " 1 " (k * 7 % 331 > 160)
            }
        }' >"$dir/data/part-$worker-$part"
    done
done

program job <<P
exec "$goes_on" "\$@"
P

# whole DIR: what a model has, without the epochs of its rows.
whole()
{
    sha256sum <"$1/$(cat "$1/CURRENT")/dense.safetensors"
    for table in rows others; do
        "$flotilla" export "$1" --tsv $table | cut -f 1,2,4- | sort | sha256sum
    done
}
