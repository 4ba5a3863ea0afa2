#!/bin/sh
# test_pages.sh FLOTILLA - pages in a real browser: their script runs to its end, and
# something is drawn. Skipped where there is no chromium (`make pages` installs it).
browser=$(command -v chromium || command -v chromium-browser) || exit 77
flotilla=$(cd "$(dirname "$1")" && pwd)/flotilla
. "$(dirname "$0")/kit.sh"
export HOME="$dir"

# Its sandbox wants more than a container has; it sees nothing but our own page.
look()
{
    timeout 100 "$browser" --headless --no-sandbox --disable-gpu \
        --disable-dev-shm-usage --user-data-dir="$dir/profile" "$@" 2>said
}

"$flotilla" datagen --lines 2000 --out all.txt 2>/dev/null
for run in a b; do
    "$flotilla" train ctr_dnn --batch 100 --hidden 8 --width 2 --data all.txt \
        --test all.txt --epochs 3 --record $run >said 2>&1 || { cat said; exit 1; }
done
"$flotilla" report a -o a.html || fail "report"
"$flotilla" report a --compare b -o both.html || fail "report of two"

for page in a both; do
    look --dump-dom "file://$dir/$page.html" >$page.dom || { cat said; fail dump; }
    grep -q 'data-ready="1"' $page.dom ||
        { cat said; fail "$page: its script did not come to its end"; }
    [ "$(grep -c '<svg class="chart"' $page.dom)" -ge 3 ] || fail "$page: curves"
done

# The script answers to the pointer.
sed 's|</body>|<script>var s=document.querySelector("svg"),r=s.getBoundingClientRect();s.dispatchEvent(new MouseEvent("mousemove",{clientX:r.left+r.width/2,clientY:r.top+50}));document.body.dataset.shown=document.querySelector(".shown").textContent</script></body>|' \
    a.html >pointed.html
look --dump-dom "file://$dir/pointed.html" >pointed.dom
grep -q 'data-shown="process: [0-9.]*  at [0-9]' pointed.dom ||
    { tail -c 300 pointed.dom; fail "nothing is shown under the pointer"; }

look --screenshot="$dir/a.png" --window-size=1200,900 "file://$dir/a.html" ||
    { cat said; fail screenshot; }
[ "$(head -c 4 a.png | tail -c 3)" = PNG ] || fail "the screenshot is no picture"
[ "$(wc -c <a.png)" -gt 20000 ] || fail "the screenshot is empty"

# A drawing of a program, too: SVG that a browser takes, with links and tooltips.
cat >model.txt <<'END'
var x : f32[-1,4] data
param w : f32[4,2] init=xavier trainable
op mul (X=x, Y=w) -> (Out=y)
fetch y
END
"$flotilla" draw model.txt -o model.svg || fail draw
look --dump-dom "file://$dir/model.svg" >model.dom
grep -q 'href="#p0_2"' model.dom || { cat model.dom; fail "a drawing has no links"; }
exit $failed
