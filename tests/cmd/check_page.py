"""check_page.py PAGE - tags are closed, ids are used once, nothing is fetched from
elsewhere."""
import sys
from html.parser import HTMLParser

EMPTY = {"meta", "br", "path", "circle"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.faults, self.n_svg = [], set(), [], 0

    def handle_starttag(self, tag, attrs):
        self.look(tag, dict(attrs))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.look(tag, dict(attrs))

    def look(self, tag, attrs):
        self.n_svg += tag == "svg"
        if attrs.get("id") in self.ids:
            self.faults.append(f"id {attrs['id']} twice")
        self.ids |= {attrs["id"]} if "id" in attrs else set()
        for name in ("src", "href", "xlink:href"):
            if name in attrs and not attrs[name].startswith("#"):
                self.faults.append(f"{tag} fetches {attrs[name]}")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")


page = Page()
with open(sys.argv[1], encoding="utf-8") as f:
    text = f.read()
page.feed(text)
page.close()
if page.open:
    page.faults.append(f"{page.open} stay open")
if page.n_svg < 3:
    page.faults.append(f"{page.n_svg} curves")
if "nan" in text.lower().replace("nanmean", ""):
    page.faults.append("a number that is none")
for fault in page.faults:
    print(fault)
sys.exit(bool(page.faults))
