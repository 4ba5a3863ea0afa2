"""Transpiled programs as 1.8 lists them.

A send here cuts its gradient itself, one recv takes all parameters and joins
their parts, and a server adds up what comes from the trainers of a step; 1.8 has
operators for each of these. Scripts that look at the operators of a transpiled
program find those in Block.ops, and the blocks of a server's program. What runs
is the program, as it prints itself.
"""
import collections

from ..ir_view import FLUID_ROLES, ROLES
from ..types import VarType
from .listed import (Listed, ListedBlock, VarDistributed, VarsDistributed,
                     VarStruct)

_SYNC, _ASYNC = "sync", "async"
MODES = (_SYNC, "half_async", _ASYNC)
_LR, _UPDATE = FLUID_ROLES[ROLES["lr"]], FLUID_ROLES[ROLES["optimize"]]
_LOOKUPS = ("lookup_table", "lookup_table_v2")
_NOT_STATE = ("Param", "Grad", "LearningRate", "Beta1Tensor", "Beta2Tensor")

Part = collections.namedtuple("Part", "name grad endpoint shape")


def _of_role(block, role):
    return [op for op in block.ops if op.attr("op_role") == role]


def _key(op):
    return op.type, tuple(op.input_arg_names), tuple(op.output_arg_names)


def _last_maker(ops, names):
    """Where the last of them is made, or -1."""
    return max((i for i, op in enumerate(ops)
                if set(names) & set(op.output_arg_names)), default=-1)


def table_of(program):
    """The parameter whose rows a lookup with is_distributed has; or None."""
    return next((op.input("W")[0] for op in program.global_block().ops
                 if op.type in _LOOKUPS and op.attr("is_distributed")), None)


class Job:
    """The programs of a job as they were, and who has which part of a
    parameter: those that are cut as the servers' own programs say, rows of a
    table a part each."""

    def __init__(self, main, startup, servers, mode, n_trainers):
        self.block, self.startup = main.global_block(), startup.global_block()
        self.program = main
        self.endpoints = list(servers)
        self.mode, self.n_trainers = mode, n_trainers
        self.schedule = _of_role(self.block, _LR)
        self.counter = next((op.output("Out")[0] for op in self.schedule
                             if op.type == "increment"), None)
        self.updates = _of_role(self.block, _UPDATE)
        self.grads = {}
        for op in self.updates:
            if op.attr("op_role_var"):
                param, grad = op.attr("op_role_var")[:2]
                self.grads.setdefault(param, grad)
        kept = {}
        for at, program in servers.items():
            for p in program.global_block().all_parameters():
                kept.setdefault(p.name.partition(".block")[0],
                                []).append((p.name, at, p.shape))
        self.parts = {p: self._parts(p, g, sorted(kept.get(p, ())))
                      for p, g in self.grads.items()}

    def _parts(self, param, grad, kept):
        if not kept:
            kept = self._rows(self.block.var(param))
        return [Part(name, grad + name[len(param):], at, tuple(shape))
                for name, at, shape in kept]

    def _rows(self, var):
        n, height = len(self.endpoints), var.shape[0]
        each = -(-height // n)
        return [(f"{var.name}.block{i}" if n > 1 else var.name, at,
                 (max(min(each, height - i * each), 0), *var.shape[1:]))
                for i, at in enumerate(self.endpoints)]

    def is_sparse(self, param):
        """Whether its gradient is rows."""
        grad = self.grads[param]
        return (self.block.has_var(grad) and
                self.block.var(grad).type == VarType.SELECTED_ROWS)

    def part_at(self, param, endpoint):
        return next((p for p in self.parts.get(param, ())
                     if p.endpoint == endpoint), None)

    def updates_at(self, endpoint):
        """(operator that updates, its part) of a server."""
        found = ((op, self.part_at(op.input("Param")[0], endpoint))
                 for op in self.updates if "Param" in op.input_names)
        return [(op, part) for op, part in found if part is not None]

    # --- trainers ---

    def _counters(self):
        """Where trainers do not wait for each other, each counts steps."""
        return [f"{self.counter}.trainer_{i}" for i in range(self.n_trainers)]

    def _counted(self):
        """First values of what counts steps."""
        if self.mode == _SYNC or not self.counter:
            return []
        return [Listed("fill_constant", outputs={"Out": [n]},
                       attrs={"shape": [1], "value": 1.0})
                for n in reversed(self._counters())]

    def trainer(self, real, rank):
        """Operators of a trainer; `real` are those of its program."""
        mine = {_key(op): op for op in real}
        ops = [mine.get(_key(op), op) for op in self.block.ops
               if op.attr("op_role") not in (_LR, _UPDATE)]
        for param in self.grads:
            self._send(ops, param)
        if self.mode == _SYNC:
            ops.append(Listed("send_barrier"))
        elif self.counter:
            ops.append(Listed("send", {"X": [self._counters()[rank]]}, attrs={
                "epmap": self.endpoints}))
        ops += self._received(False)
        for param in filter(self.is_sparse, self.grads):
            self._fetch_rows(ops, param)
        return ops

    def _send(self, ops, param):
        grad, parts = self.grads[param], self.parts[param]
        cut = len(parts) > 1 and self.mode != _ASYNC
        names = [p.grad for p in parts] if cut else [grad]
        found = [Listed("send", {"Param": [param], "X": names}, attrs={
            "epmap": [p.endpoint for p in parts],
            "op_role_var": [param, grad]})]
        if cut:
            kind = ("split_selected_rows" if self.is_sparse(param)
                    else "split_byref")
            found.insert(0, Listed(kind, {"X": [grad]}, {"Out": names}))
        at = _last_maker(ops, [grad]) + 1
        ops[at:at] = found

    def _received(self, is_startup):
        """What takes parameters from the servers."""
        dense = {p: [part.name for part in parts]
                 for p, parts in self.parts.items() if not self.is_sparse(p)}
        joins = is_startup or self.mode != _ASYNC
        ops = [Listed("recv", outputs={"Out": names if joins else [p]}, attrs={
            "epmap": [part.endpoint for part in self.parts[p]]})
            for p, names in dense.items()]
        if is_startup or self.mode == _SYNC:
            ops.append(Listed("fetch_barrier",
                              attrs={"endpoints": self.endpoints}))
        if joins:
            ops += [Listed("concat", {"X": names}, {"Out": [p]}, {"axis": 0})
                    for p, names in dense.items() if len(names) > 1]
        return ops

    def _fetch_rows(self, ops, param):
        """One operator for all lookups of a parameter, behind their ids."""
        lookups = [op for op in ops if op.type in _LOOKUPS and
                   op.input("W") == [param]]
        if not lookups:
            return
        ids = [op.input("Ids")[0] for op in lookups]
        ops[:] = [op for op in ops if op not in lookups]
        parts = self.parts[param]
        ops.insert(_last_maker(ops, ids) + 1, Listed(
            "distributed_lookup_table", {"Ids": ids, "W": [param]},
            {"Outputs": [op.output("Out")[0] for op in lookups]},
            {"table_names": [p.name for p in parts],
             "endpoints": [p.endpoint for p in parts],
             "padding_idx": lookups[0].attr("padding_idx")}))

    def trainer_startup(self):
        """First values, but of what only servers have; then what they say."""
        gone = {n for op in self.updates for n in op.input_arg_names} \
            - set(self.grads) - set(self.grads.values())
        sparse = list(filter(self.is_sparse, self.grads))
        ops = [op for op in self.startup.ops
               if not (gone | set(sparse)) & set(op.output_arg_names)]
        return self._counted() + ops + self._received(True) + [
            Listed("fake_init", outputs={"Out": [p]},
                   attrs={"shape": list(self.parts[p][0].shape)})
            for p in sparse]

    def trainer_vars(self):
        """Parts, as variables."""
        return {part.name: VarStruct.like(self.block.var(p), part.name,
                                          part.shape, False)
                for p, parts in self.parts.items() for part in parts
                if part.name != p}

    # --- servers ---

    def _merged(self, part):
        """A server adds up the trainers of a step."""
        if self.mode != _SYNC or self.n_trainers == 1:
            return []
        came = [f"{part.grad}.trainer_{i}" for i in range(self.n_trainers)]
        return [Listed("sum", {"X": came}, {"Out": [part.grad]}),
                Listed("scale", {"X": [part.grad]}, {"Out": [part.grad]},
                       {"scale": 1.0 / self.n_trainers})]

    def server(self, endpoint):
        """Blocks of a server, from 1 on: the schedule with its own blocks, and
        one per update."""
        blocks = self._schedule_blocks()
        parent = len(blocks)
        for op, part in self.updates_at(endpoint):
            param, grad = op.input("Param")[0], self.grads[op.input("Param")[0]]
            names = {param: part.name, grad: part.grad}
            ops = [Listed.like(o, names) for o in self.updates
                   if o.attr("op_role_var")[:1] == [param]]
            blocks.append(ListedBlock(len(blocks) + 1, parent,
                                      self._merged(part) + ops))
        return blocks or [ListedBlock(1, 0, [])]

    def _schedule_blocks(self):
        if not self.schedule:
            return []
        blocks = [ListedBlock(1, 0, [])]
        for op in self.schedule:
            more = {}
            if op.has_attr("sub_block"):
                inner = self.program.block(op.attr("sub_block"))
                more["sub_block"] = ListedBlock(len(blocks) + 1, 1, inner.ops)
                blocks.append(more["sub_block"])
            blocks[0].ops.append(Listed.like(op, {}, **more))
        if self.counter and self.mode != _SYNC:
            at = [op.type for op in blocks[0].ops].index("increment")
            blocks[0].ops[at] = Listed("sum", {"X": self._counters()},
                                       {"Out": [self.counter]})
        return blocks

    def serves(self, op, endpoint, blocks, number):
        """listen_and_serv over these blocks."""
        updates = self.updates_at(endpoint)
        of_updates = blocks[len(blocks) - max(len(updates), 1):]
        parts = [part for _, part in updates]
        came = [n for part in parts for merged in [self._merged(part)]
                for n in (merged[0].input("X") if merged else [part.grad])]
        return Listed(op.type, {"X": came}, {}, dict(
            op.all_attrs(), distributed_mode=number, Fanin=self.n_trainers,
            endpoint=endpoint, pserver_id=self.endpoints.index(endpoint),
            optimize_blocks=blocks[:1] * bool(self.schedule) + of_updates
            if updates else blocks[:1],
            lr_decay_block_id=1 if self.schedule else -1,
            grad_to_block_id=[f"{part.grad}:{b.idx}"
                              for part, b in zip(parts, of_updates)],
            sparse_grad_to_param=[
                f"{part.grad}:{part.name}" for op, part in updates
                if self.is_sparse(op.input("Param")[0])]))

    def server_startup(self, endpoint):
        """First values of what a server has."""
        kept = {n: n for op in self.schedule for n in op.input_arg_names}
        shapes = {}
        for op, part in self.updates_at(endpoint):
            param = op.input("Param")[0]
            kept.update({n: n for n in op.input_arg_names})
            kept[param] = part.name
            whole = self.block.var(param).shape
            shapes.update({n: part.shape for n in op.input_arg_names
                           if self.block.var(n).shape == whole})
        return self._counted() + [Listed.like(op, kept, **(
            {"shape": list(shapes[n])} if n in shapes else {}))
            for op in self.startup.ops for n in op.output_arg_names[:1]
            if n in kept]

    def overview(self):
        """Who has what."""
        found = [self._slice(param, i, part)
                 for param, parts in self.parts.items()
                 for i, part in enumerate(parts)]
        for at in self.endpoints:
            for op, part in self.updates_at(at):
                found += self._state(op, part)
        return VarsDistributed(found)

    def _slice(self, param, i, part):
        var = self.block.var(param)
        cut = len(self.parts[param]) > 1
        before = sum(p.shape[0] for p in self.parts[param][:i])
        width = 1
        for n in part.shape[1:]:
            width *= n
        return VarDistributed(
            VarStruct.like(var), VarStruct.like(var, part.name, part.shape),
            cut, i if cut else 0, before * width,
            "RemotePrefetch" if self.is_sparse(param) else "Param",
            part.endpoint)

    def _state(self, op, part):
        param = op.input("Param")[0]
        i = self.parts[param].index(part)
        whole = self._slice(param, i, part)
        for slot in op.input_names:
            if slot in _NOT_STATE or not op.input(slot):
                continue
            var = self.block.var(op.input(slot)[0])
            like = var.shape == self.block.var(param).shape
            yield VarDistributed(
                VarStruct.like(var),
                VarStruct.like(var, shape=part.shape if like else None),
                like and whole.is_slice, whole.block_id if like else 0,
                whole.offset if like else 0, "Optimizer", part.endpoint)
