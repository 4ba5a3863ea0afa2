#!/bin/sh
# check_raw.sh FLOTILLA PAGE [DATA] - the commands of raw-to-model.md run. On the
# public data of MODEL_DATA, or of the directory DATA, the models reach what the
# page says they do at least; where there is neither, they run on lines with the
# same columns that are made here.
flotilla=$(realpath "$1")
page=$(realpath "$2")
data=${MODEL_DATA:-$3}
PATH=$(dirname "$flotilla"):$PATH
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# make NAME RECORDS: lines like those of the set. A linear congruence draws.
make()
{
    awk -v kind="$1" -v n="$2" '
    function draw(below)
    {
        state = (state * 1103515245 + 12345) % 2147483648
        return int(state / 65536) % below
    }
    function adult(age, sex)
    {
        age = 17 + draw(60); sex = draw(2)
        return age ", w" draw(4) ", " 10000 + draw(30000) ", e" draw(9) ", " \
            draw(16) ", m" draw(3) ", o" draw(9) ", r" draw(4) ", x, s" sex \
            ", " (draw(9) ? 0 : 100 * draw(99)) ", 0, " draw(99) ", c" \
            draw(5) ", " (age + 40 * sex + draw(30) > 80 ? ">50K" : "<=50K")
    }
    function avazu(site, s, i)
    {
        site = draw(20)
        s = i++ "," (site + draw(20) > 28) ",141021" 10 + draw(14)
        s = s ",1005," draw(2) ",s" site ",d" site
        for (i = 0; i < 9; i++)
            s = s ",x" draw(9)
        for (i = 0; i < 8; i++)
            s = s "," draw(300)
        return s
    }
    function frappe(a, b, s, i)
    {
        a = draw(8); b = draw(8)
        s = (a > b ? "1" : "-1") " " a ":1 " 10 + b ":1"
        for (i = 2; i < 10; i++)
            s = s " " 20 + i * 10 + draw(9) ":1"
        return s
    }
    function ratings(who, what)
    {
        who = 1 + draw(30); what = 1 + draw(40)
        return who "\t" what "\t" 2 + who % 2 + what % 2 + draw(2) "\t" 874724710
    }
    function criteo(s, i, x)
    {
        x = draw(50)
        s = (x + draw(50) > 60) "\t" x
        for (i = 1; i < 13; i++)
            s = s "\t" (draw(3) ? draw(1000) : "")
        for (i = 0; i < 26; i++)
            s = s "\t" draw(20)
        return s
    }
    BEGIN {
        state = 7
        if (kind == "avazu")
            print "id,click,hour,C1,banner_pos,site_id,site_domain," \
                "site_category,app_id,app_domain,app_category,device_id," \
                "device_ip,device_model,device_type,device_conn_type,C14,C15," \
                "C16,C17,C18,C19,C20,C21"
        for (r = 0; r < n; r++)
            print kind == "adult" ? adult() : kind == "avazu" ? avazu() : \
                kind == "frappe" ? frappe() : \
                kind == "ratings" ? ratings() : criteo()
    }' | gzip -c
}

# The blocks of the page, each told before it runs.
script()
{
    echo 'set -e'
    awk '
/^```/ && on { on = 0 }
on { print }
/^## / { section = $2 }
$0 == "```sh" { on = 1; print "echo \"# " section "\"" }' "$page"
}

# reaches SECTION METRIC LEAST MOST: what was held out in the end.
reaches()
{
    got=$(awk -v section="$1" -v metric="$2" '
/^# / { here = $2 == section }
here && /^held out: / && match($0, metric " [0-9.]+") {
    print substr($0, RSTART + length(metric) + 1, RLENGTH - length(metric) - 1)
}' "$dir/said" | tail -n 1)
    awk -v x="$got" -v least="$3" -v most="$4" \
        'BEGIN { exit !(x != "" && x >= least && x <= most) }' || {
        echo "FAIL $1 $2 '$got' is not in $3..$4"
        failed=1
    }
}

is_real=no
if [ -n "$data" ] && [ -d "$data/adult" ]; then
    MODEL_DATA=$(realpath "$data")
    is_real=yes
else
    MODEL_DATA=$dir/data
    mkdir -p "$MODEL_DATA/adult" "$MODEL_DATA/avazu" "$MODEL_DATA/frappe" \
        "$MODEL_DATA/movielens" "$MODEL_DATA/criteo"
    make adult 2000 >"$MODEL_DATA/adult/adult.data.gz"
    make avazu 2000 >"$MODEL_DATA/avazu/part.csv.gz"
    make frappe 2000 >"$MODEL_DATA/frappe/frappe.validation.libfm.gz"
    make ratings 2000 >"$MODEL_DATA/movielens/ml-100k_u.data.gz"
    make criteo 2000 >"$MODEL_DATA/criteo/criteo_sample_spread.txt.gz"
fi
export MODEL_DATA
script >"$dir/script"
mkdir "$dir/here"
(cd "$dir/here" && sh ../script >../said 2>&1 </dev/null) || {
    cat "$dir/said"
    echo "FAIL $page: the block of the last line with # fails"
    exit 1
}
if [ $is_real = yes ]; then
    reaches Adult: AUC 0.915 1
    reaches Avazu: AUC 0.71 1
    reaches Frappe: AUC 0.927 1
    reaches MovieLens: rmse 0 0.91
    reaches Criteo: AUC 0.72 1
else
    reaches Adult: AUC 0.7 1
    reaches Frappe: AUC 0.7 1
    reaches MovieLens: rmse 0 1
fi
exit $failed
