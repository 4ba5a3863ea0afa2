"""Writes _core.pyi: what the extension has, out of its C sources.

    stub.py OUT SOURCE ...

Functions take positional arguments; the comments above their C bodies say
which.
"""
import re
import sys

HEAD = '''"""Handles and functions of libflotilla, as python/core has them."""
from typing import Any, Dict, List, Optional, Tuple

class Error(Exception):
    op: Optional[str]
    op_tag: int
    var: Optional[str]
    var_tag: int
    is_feed: bool
    place: Tuple[str, int]

class Handle: ...

class Tensor:
    __array_interface__: Dict[str, Any]
'''


def errors(text):
    """Classes of statuses: "flotilla.InvalidError", &PyExc_ValueError."""
    for name, also in re.findall(
            r'"flotilla\.(\w+)",\s*&PyExc_(\w+)', text):
        yield f"class {name}(Error, {also}): ..."


def fields(text):
    """Fields of a Tensor: { "shape", get_shape, ... }."""
    for name in re.findall(r'\{\s*"(\w+)",\s*get_\w+,', text):
        if not name.startswith("__"):
            yield f"    {name}: Any"


def functions(text):
    """Rows of the tables of methods."""
    named = re.findall(r'^\s+METHOD\((\w+),', text, re.M)
    for name in named + re.findall(r'\{\s*"(\w+)",\s*\w+,\s*METH_', text):
        yield f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."


def main(out, *sources):
    text = ""
    for path in sources:
        with open(path, encoding="utf-8") as f:
            text += f.read()
    with open(out, "w", encoding="utf-8") as f:
        f.write(HEAD)
        for part in (fields, errors, functions):
            f.write("\n".join(sorted(part(text))) + "\n\n")


main(*sys.argv[1:])
