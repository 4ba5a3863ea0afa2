"""Scopes inside of each other, of each thread: the older way to have one."""
import threading

from .tensor import Scope

_of_thread = threading.local()


def _stack():
    if not hasattr(_of_thread, "scopes"):
        _of_thread.scopes = [Scope()]
    return _of_thread.scopes


def get_cur_scope():
    """The scope that is current in this thread."""
    return _stack()[-1]


def enter_local_scope():
    """A scope inside of the current one becomes current."""
    _stack().append(get_cur_scope().new_scope())


def leave_local_scope():
    """The scope around the current one becomes current, which is gone."""
    if len(_stack()) == 1:
        raise RuntimeError("leave_local_scope: no enter_local_scope came "
                           "before it")
    _stack().pop()
    get_cur_scope().drop_kids()


def var(name):
    """The variable of the current scope; a new one has no value."""
    return get_cur_scope().var(name)


def find_var(name):
    """The variable in the current scope or around it; None when there is
    none."""
    return get_cur_scope().find_var(name)


def scoped_function(func):
    """Calls it in a scope of its own."""
    enter_local_scope()
    try:
        return func()
    finally:
        leave_local_scope()
