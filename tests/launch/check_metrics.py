"""check_metrics.py FILE NAME... - what Prometheus takes, strictly: HELP and TYPE
once and before the values, names and labels by its rules, counters that end in
_total and nothing else that does, units in full, no value twice, and these names
are there. With promtool on the path, that has the last word."""
import re
import shutil
import subprocess
import sys

LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SHORT = re.compile(r"_(ms|us|ns|sec|secs|kb|mb|gb|kib|mib)(_|$)")


def fail(text):
    print("FAIL %s: %s" % (sys.argv[1], text))
    sys.exit(1)


def check_name(name, kind):
    if not name.startswith("flotilla_") or name != name.lower():
        fail("the name %s" % name)
    if (kind == "counter") != name.endswith("_total"):
        fail("%s is a %s" % (name, kind))
    if SHORT.search(name):
        fail("%s has a unit that is not written out" % name)


def labels_of(text):
    found = list(LABEL.finditer(text))
    if "".join(m.group(0) for m in found) != text:
        fail("the labels %s" % text)
    return tuple(sorted(m.groups() for m in found))


kinds, helped, seen, current = {}, set(), set(), None
with open(sys.argv[1]) as f:
    text = f.read()
if not text.endswith("\n"):
    fail("the last line has no end")
for line in text.split("\n")[:-1]:
    words = line.split(" ", 3)
    if line.startswith("# HELP "):
        if words[2] in helped or len(words) < 4:
            fail(line)
        helped.add(words[2])
        continue
    if line.startswith("# TYPE "):
        if words[2] in kinds or words[2] not in helped:
            fail(line)
        kinds[words[2]] = words[3]
        check_name(words[2], words[3])
        current = words[2]
        continue
    match = LINE.match(line)
    if not match or match.group(1) != current:
        fail("the line %s" % line)
    value = (current, labels_of(match.group(2) or ""))
    if value in seen:
        fail("twice: %s" % line)
    seen.add(value)
    float(match.group(3))
for name in sys.argv[2:]:
    if name not in kinds or name not in {n for n, _ in seen}:
        fail("there is no %s in\n%s" % (name, text))
if shutil.which("promtool"):
    said = subprocess.run(["promtool", "check", "metrics"], input=text,
                          capture_output=True, text=True, check=False)
    if said.returncode or said.stdout or said.stderr:
        fail("promtool: %s%s" % (said.stdout, said.stderr))
