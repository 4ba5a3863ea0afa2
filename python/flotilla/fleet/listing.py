"""Transpiled programs as 1.8 lists them.

A send here cuts its gradient itself, one recv takes all parameters and joins
their parts, and a server adds up what comes from the trainers of a step; 1.8 has
operators for each of these. Scripts that look at the operators of a transpiled
program find those in Block.ops. What runs is the program, as it prints itself.
"""
_SYNC, _ASYNC = "sync", "async"
MODES = (_SYNC, "half_async", _ASYNC)


class Listed:
    """An operator that is a part of another one here."""

    def __init__(self, type, inputs=None, outputs=None, attrs=None):
        self.type = type
        self._inputs, self._outputs = inputs or {}, outputs or {}
        self._attrs = attrs or {}

    @property
    def input_names(self):
        return list(self._inputs)

    @property
    def output_names(self):
        return list(self._outputs)

    def input(self, name):
        return self._inputs.get(name, [])

    def output(self, name):
        return self._outputs.get(name, [])

    @property
    def input_arg_names(self):
        return [n for names in self._inputs.values() for n in names]

    @property
    def output_arg_names(self):
        return [n for names in self._outputs.values() for n in names]

    @property
    def attr_names(self):
        return list(self._attrs)

    def has_attr(self, name):
        return name in self._attrs

    def attr(self, name):
        return self._attrs[name]

    def all_attrs(self):
        return dict(self._attrs)

    def __repr__(self):
        return f"{{{self._outputs}}} = {self.type}(inputs={{{self._inputs}}})"


def parts_of(servers):
    """{parameter: its parts, or itself} of the programs of all servers."""
    found = {}
    for program in servers:
        for p in program.global_block().all_parameters():
            found.setdefault(p.name.partition(".block")[0], []).append(p.name)
    return {name: sorted(parts) for name, parts in found.items()}


def _received(parts, mode, always_waits):
    """What takes parameters from the servers."""
    cut = {p: names for p, names in parts.items() if names != [p]}
    ops = [Listed("recv", outputs={"Out": names}) for names in parts.values()]
    if always_waits or mode == _SYNC:
        ops.append(Listed("fetch_barrier"))
    if always_waits or mode != _ASYNC:
        ops += [Listed("concat", {"X": names}, {"Out": [p]})
                for p, names in cut.items()]
    return ops


def of_trainer(parts, mode):
    def look(index, ops):
        if index or any(op.type == "pull_sparse" for op in ops):
            return ops
        done = []
        for op in ops:
            names = parts.get((op.input("Param") or [None])[0], ())
            if op.type == "send" and mode != _ASYNC and len(names) > 1:
                done.append(Listed("split_byref", {"X": op.input("X")}, {
                    "Out": [n + "@GRAD" for n in names]}))
            if op.type != "recv" and (op.type != "send_barrier" or
                                      mode == _SYNC):
                done.append(op)
        return done + _received(parts, mode, False)

    return look


def of_trainer_startup(parts, mode, first):
    """Behind the first values, which trainers have before they ask."""
    def look(index, ops):
        return ops if index else first + _received(parts, mode, True)

    return look


def of_server(mode, n_trainers, number):
    def look(index, ops):
        if not index:
            return [Listed(op.type, attrs=dict(
                op.all_attrs(), distributed_mode=number, Fanin=n_trainers))
                if op.type == "listen_and_serv" else op for op in ops]
        grads = [op.input("Grad") for op in ops if "Grad" in op.input_names]
        if mode != _SYNC or n_trainers == 1 or not grads:
            return ops
        came = [f"{grads[0][0]}.trainer_{i}" for i in range(n_trainers)]
        return [Listed("sum", {"X": came}, {"Out": grads[0]}),
                Listed("scale", {"X": grads[0]}, {"Out": grads[0]},
                       {"scale": 1.0 / n_trainers})] + ops

    return look
