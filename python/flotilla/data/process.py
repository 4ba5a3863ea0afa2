"""Readers in processes of their own.

A child reads and sends; it touches nothing of the library. Its samples come
through a pipe, so that a child that dies is seen at once.
"""
import multiprocessing
import multiprocessing.connection

_SAMPLE, _END, _FAILED = range(3)


def _send_all(reader, pipe):
    try:
        for sample in reader():
            if sample is None:
                raise ValueError("sample has None")
            pipe.send((_SAMPLE, sample))
        pipe.send((_END, None))
    except BrokenPipeError:
        pass  # nobody reads any more
    except BaseException as e:  # the parent raises it
        pipe.send((_FAILED, f"{type(e).__name__}: {e}"))
    finally:
        pipe.close()


def _start(context, reader):
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send_all, args=(reader, theirs),
                            daemon=True)
    child.start()
    theirs.close()
    return mine, child


def _received(pipe, child):
    try:
        return pipe.recv()
    except EOFError:
        child.join()
        return _FAILED, (f"process {child.pid} of a reader ended with "
                         f"{child.exitcode}")


def gather(readers):
    """Samples of all readers, each in a child, as they come."""
    context = multiprocessing.get_context("fork")
    children = dict(_start(context, r) for r in readers)
    live = dict(children)
    try:
        while live:
            for pipe in multiprocessing.connection.wait(list(live)):
                what, value = _received(pipe, live[pipe])
                if what == _FAILED:
                    raise ValueError("multiprocess reader raises an "
                                     f"exception: {value}")
                if what == _END:
                    del live[pipe]
                else:
                    yield value
    finally:
        for pipe, child in children.items():
            pipe.close()
            if child.is_alive():
                child.terminate()
            child.join()
