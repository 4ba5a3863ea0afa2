"""Limits on gradients, written as operators."""


class GradientClipBase:
    def __init__(self, need_clip=None):
        self._need_clip = need_clip

    def __call__(self, params_grads):
        with_grad = [(p, g) for p, g in params_grads if g is not None]
        if not with_grad:
            return params_grads
        block = with_grad[0][1].block
        with block.program._optimized_guard(None):
            return self._clip(params_grads, block)

    def _skips(self, p, g):
        return g is None or (self._need_clip and not self._need_clip(p))

    def _clip(self, params_grads, block):
        return [(p, g if self._skips(p, g) else self._one(g, block))
                for p, g in params_grads]


def _apply(block, kind, x, **attrs):
    out = block._temporary(x.name + ".clip", x.dtype)
    block.append_op(kind, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
    return out


class GradientClipByValue(GradientClipBase):
    def __init__(self, max, min=None, need_clip=None):
        super().__init__(need_clip)
        self.max = float(max)
        self.min = float(-max if min is None else min)

    def _one(self, g, block):
        return _apply(block, "clip", g, min=self.min, max=self.max)

    def __str__(self):
        return f"Gradient Clip By Value, min = {self.min:f}, max={self.max:f}"


class GradientClipByNorm(GradientClipBase):
    def __init__(self, clip_norm, need_clip=None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)

    def _one(self, g, block):
        return _apply(block, "clip_by_norm", g, max_norm=self.clip_norm)

    def __str__(self):
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"


class GradientClipByGlobalNorm(GradientClipBase):
    def __init__(self, clip_norm, group_name="default_group", need_clip=None):
        super().__init__(need_clip)
        self.clip_norm = float(clip_norm)
        self.group_name = group_name

    def _clip(self, params_grads, block):
        chosen = [(p, g) for p, g in params_grads if not self._skips(p, g)]
        if not chosen:
            return params_grads
        outs = [block._temporary(g.name + ".clip", g.dtype) for _, g in chosen]
        block.append_op("clip_by_global_norm",
                        inputs={"X": [g for _, g in chosen]},
                        outputs={"Out": outs},
                        attrs={"max_norm": self.clip_norm})
        clipped = {p.name: out for (p, _), out in zip(chosen, outs)}
        return [(p, clipped.get(p.name, g)) for p, g in params_grads]

    def __str__(self):
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"
