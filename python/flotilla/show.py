"""How things look in a notebook, and how far a pass over data is."""
import html
import sys

import numpy as np

_ROWS, _COLUMNS = 8, 10  # of an array that are shown


def table(rows, header=()):
    """Rows of texts as HTML."""
    def line(cells, tag):
        inside = "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells)
        return f"<tr>{inside}</tr>"

    head = line(header, "th") if header else ""
    return f"<table>{head}{''.join(line(r, 'td') for r in rows)}</table>"


def settings(title, values):
    """Names and values as HTML."""
    return f"<b>{html.escape(title)}</b>" + table(sorted(values.items()))


def _row(values):
    shown = [f"{v:g}" if isinstance(v, float) else str(v)
             for v in values[:_COLUMNS].tolist()]
    return shown + (["…"] if len(values) > _COLUMNS else [])


def array(title, values, labels=None):
    """The first rows and columns of an array as HTML; labels name its rows."""
    values = np.asarray(values)
    title = f"{title} {values.dtype}[{', '.join(map(str, values.shape))}]"
    flat = (values.reshape(len(values), -1) if values.ndim and len(values)
            else values.reshape(1, -1))
    rows = [_row(r) for r in flat[:_ROWS]]
    if labels is not None:
        rows = [[label] + row for label, row in zip(labels, rows)]
    if len(flat) > _ROWS:
        rows.append(["…"])
    return f"<b>{html.escape(title)}</b>" + table(rows)


# --- a pass over data ------------------------------------------------------

def _duration(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}:{minutes:02}:{seconds:02}" if hours else
            f"{minutes}:{seconds:02}")


def progress_line(p):
    """One line of what a pass has done so far."""
    share = f" ({100 * p['samples'] / p['total']:.0f} %)" if p["total"] else ""
    rate = p["samples"] / p["seconds"] if p["seconds"] else 0
    parts = [f"{p['samples']} samples{share}", f"{rate:.0f} a second"]
    parts += [f"{name} {p[name]:.4f}" for name in ("loss", "auc")
              if p[name] == p[name]]
    if p["wait_share"] > 0.01:
        parts.append(f"{100 * p['wait_share']:.0f} % waiting for data")
    return f"{_duration(p['seconds'])}  " + ", ".join(parts)


def _notebook():
    """IPython's display, in a notebook; else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return ipython.display.display


class Progress:
    """Called with the numbers of a pass: one line that is written over, in a
    terminal and in a notebook, and nothing elsewhere. Texts (fetched values, the
    profile) are printed."""

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._display = _notebook()
        self._is_terminal = self._stream.isatty()
        self._line = None  # of the notebook, once it is there
        self._is_open = False  # a line of the terminal is to be written over

    def __call__(self, p):
        if p["text"] is not None:
            self._end_line()
            print(p["text"].rstrip("\n"), flush=True)
        elif self._display:
            self._show({"text/plain": progress_line(p)})
        elif self._is_terminal:
            print(f"\r{progress_line(p)}\x1b[K", end="", file=self._stream,
                  flush=True)
            self._is_open = True
        if p["is_last"]:
            self._end_line()

    def _end_line(self):
        if self._is_open:
            print(file=self._stream, flush=True)
        self._is_open = False

    def _show(self, data):
        if self._line is None:
            self._line = self._display(data, raw=True, display_id=True)
        else:
            self._line.update(data, raw=True)
