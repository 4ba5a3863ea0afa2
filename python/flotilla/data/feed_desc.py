"""DataFeedDesc: how lines become slots, in the text form of protocol buffers."""
import re

_TOKEN = re.compile(r'\s*(?:#[^\n]*|(\w+)\s*:\s*("(?:[^"\\]|\\.)*"|[^\s{}]+)|'
                    r'(\w+)\s*\{|(\}))')


def parse(text):
    """A message as a list of (name, value): a word as it stands, or the list of
    a message inside."""
    stack, at = [[]], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if not found:
            raise ValueError("this is no description of a data feed: "
                             f"{text[at:].strip().splitlines()[0]!r}")
        at = found.end()
        name, value, message, end = found.groups()
        if name:
            stack[-1].append((name, value))
        elif message:
            inside = []
            stack[-1].append((message, inside))
            stack.append(inside)
        elif end:
            stack.pop()
    if len(stack) != 1:
        raise ValueError("a description of a data feed has braces that do not "
                         "match")
    return stack[0]


def to_text(message, indent=""):
    lines = []
    for name, value in message:
        if isinstance(value, list):
            lines.append(f"{indent}{name} {{\n{to_text(value, indent + '  ')}"
                         f"{indent}}}\n")
        else:
            lines.append(f"{indent}{name}: {value}\n")
    return "".join(lines)


def _get(message, name):
    return next((v for k, v in message if k == name), None)


def _set(message, name, value):
    """In the place where it is, or at the end."""
    for i, (k, _) in enumerate(message):
        if k == name:
            message[i] = (name, value)
            return
    message.append((name, value))


class DataFeedDesc:
    """The description in a file, with changes."""

    def __init__(self, proto_file):
        with open(proto_file, encoding="utf-8") as f:
            self._message = parse(f.read())
        if _get(self._message, "pipe_command") is None:
            self._message.append(("pipe_command", '"cat"'))
        slots = _get(self._message, "multi_slot_desc") or []
        self._slots = {_get(s, "name").strip('"'): s for _, s in slots}

    def set_batch_size(self, batch_size):
        _set(self._message, "batch_size", str(int(batch_size)))

    def _mark(self, names, field):
        for name in names:
            if name not in self._slots:
                raise ValueError(f"there is no slot {name}; there are "
                                 f"{', '.join(self._slots)}")
            _set(self._slots[name], field, "true")

    def set_dense_slots(self, dense_slots_name):
        self._mark(dense_slots_name, "is_dense")

    def set_use_slots(self, use_slots_name):
        self._mark(use_slots_name, "is_used")

    def desc(self):
        return to_text(self._message)
