"""Names that are not there, answered with the nearest that is."""
import difflib
import functools
import inspect
import re
import sys


def hint(name, known):
    """"; did you mean NAME?", or nothing."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def attributes_of(module):
    """A __getattr__ for the module of that name."""
    def missing(name):
        known = [n for n in vars(sys.modules[module]) if not n.startswith("_")]
        said = f"{module} has no {name}"
        if name.startswith("__"):  # what others look for, to see if it is there
            raise AttributeError(said)
        raise AttributeError(said + hint(name, known))

    return missing


def _answer(error, fn):
    """Adds the nearest argument to Python's own message."""
    wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if wrong and f"{fn.__name__}() got" in str(error):
        known = inspect.signature(fn).parameters
        error.args = (str(error) + hint(wrong.group(1), known),)


def arguments_of(fn):
    """The function; a wrong name of an argument is answered with the nearest."""
    @functools.wraps(fn)
    def called(*args, **kwargs):
        try:
            return fn(*args, **kwargs)
        except TypeError as e:
            _answer(e, fn)
            raise

    return called


def all_arguments(module):
    """The same for all functions of a module."""
    names = vars(sys.modules[module])
    for name, fn in list(names.items()):
        if inspect.isfunction(fn) and not name.startswith("_"):
            names[name] = arguments_of(fn)
