"""Rows of a table, or of the servers of a job, as a PyTorch module.

    import flotilla as fl, flotilla.torch

    rows = fl.torch.Embedding(fl.Table("users", dim=8, optimizer="adagrad"))
    loss = net(rows(ids)).sum()     # ids: a tensor of whole numbers
    loss.backward()                 # pushes the gradients to the table

The table updates its rows by a rule of its own, when backward runs; torch's
optimizer has the other parameters. Rows of new ids are made in training;
eval() makes none and pushes nothing.
"""
try:
    import torch
except ImportError:
    raise ImportError("flotilla.torch is rows for PyTorch, which is not here: "
                      "pip install torch") from None


class _Lookup(torch.autograd.Function):
    """Values of rows; their gradients go to the table."""

    @staticmethod
    def forward(ctx, anchor, module, ids):
        keys = ids.detach().cpu().numpy()
        ctx.module, ctx.keys = module, keys
        values = module.table.pull(keys, create=module.training)
        return torch.from_numpy(values).to(ids.device)

    @staticmethod
    def backward(ctx, gradient):
        module = ctx.module
        gradients = gradient.detach().to("cpu", torch.float32).numpy()
        if module.training:
            keys = ctx.keys.reshape(-1)
            module.table.push(keys, gradients.reshape(len(keys), -1),
                              module.lr)
        return None, None, None


class Embedding(torch.nn.Module):
    """Rows of `table` (flotilla.Table, or the table of a job) for ids; `lr` is
    the rate of the table's rule and may be changed between steps."""

    def __init__(self, table, lr=0.01):
        super().__init__()
        self.table, self.lr = table, lr
        # Something for autograd to hold on to; it has no gradient.
        self._anchor = torch.nn.Parameter(torch.zeros(()))

    @property
    def embedding_dim(self):
        """How many numbers a row has."""
        return self.table.dim

    def forward(self, ids):
        """Rows of ids, of one dimension more."""
        if ids.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"ids are int64 or int32, not {ids.dtype}")
        return _Lookup.apply(self._anchor, self, ids)

    def extra_repr(self):
        """Table and rate, as torch prints a module."""
        return f"{self.table!r}, lr={self.lr}"
