"""LayerHelper: what a layer needs to add its variables and operators."""
import copy

from . import ir, names, types, weight_norm
from .attr import ParamAttr, WeightNormParamAttr
from .check import check_type
from .initializer import ConstantInitializer, XavierInitializer


class LayerHelper:
    def __init__(self, layer_type, **kwargs):
        self.kwargs = kwargs
        self.layer_type = layer_type
        self.name = kwargs.get("name") or names.generate(layer_type)

    @property
    def main_program(self):
        return ir.default_main_program()

    @property
    def startup_program(self):
        return ir.default_startup_program()

    def append_op(self, *args, **kwargs):
        return self.main_program.current_block().append_op(*args, **kwargs)

    # --- inputs ---

    def multiple_input(self, input_param_name="input"):
        found = self.kwargs.get(input_param_name, [])
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def input(self, input_param_name="input"):
        found = self.multiple_input(input_param_name)
        if len(found) != 1:
            raise ValueError(f"{self.layer_type} layer only takes one input")
        return found[0]

    def input_dtype(self, input_param_name="input"):
        inputs = self.multiple_input(input_param_name)
        for v in inputs:
            check_type(v, input_param_name, ir.Variable, self.layer_type)
        kinds = {v.dtype for v in inputs}
        if len(kinds) > 1:
            raise ValueError("Data Type mismatch: " +
                             ", ".join(types.name_of(k) for k in kinds))
        return kinds.pop() if kinds else None

    @property
    def param_attr(self):
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self):
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length):
        attrs = self.param_attr
        if isinstance(attrs, ParamAttr):
            attrs = [attrs]
        if len(attrs) not in (1, length):
            raise ValueError("parameter number mismatch")
        if len(attrs) == 1:
            attrs = attrs + [copy.deepcopy(attrs[0]) for _ in range(length - 1)]
        return attrs

    def iter_inputs_and_params(self, input_param_name="input"):
        inputs = self.multiple_input(input_param_name)
        yield from zip(inputs, self.multiple_param_attr(len(inputs)))

    # --- what it makes ---

    def create_parameter(self, attr, shape, dtype=None, is_bias=False,
                         default_initializer=None, stop_gradient=False,
                         type=types.VarType.LOD_TENSOR):
        """A parameter in both programs, and its first value in startup."""
        attr = ParamAttr._to_attr(copy.deepcopy(attr))
        if attr is False:
            return None
        attr._set_default_initializer(
            default_initializer or
            (ConstantInitializer(0.0) if is_bias else XavierInitializer()))
        if attr.name is None:
            attr.name = names.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        if isinstance(attr, WeightNormParamAttr):
            return weight_norm.create(self, attr, shape, dtype)
        self.startup_program.global_block().create_parameter(
            shape, dtype, **attr._to_kwargs(with_initializer=True))
        return self.main_program.global_block().create_parameter(
            shape, dtype, stop_gradient=stop_gradient, **attr._to_kwargs())

    def get_parameter(self, name):
        """The parameter of that name, which a layer has made before."""
        param = self.main_program.global_block().var(name)
        if not isinstance(param, ir.Parameter):
            raise ValueError(f"no Parameter name {name} found")
        return param

    def create_table(self, attr, shape, dtype):
        """A parameter whose rows are in a table of ids, which operator
        init_table of the startup program makes."""
        if attr.name is None:
            attr.name = names.generate(f"{self.name}.w")
        block = self.main_program.global_block()
        known = block._find(attr.name)
        if known is not None:
            return known
        table = block.create_parameter(shape, dtype, is_table=True,
                                       **attr._to_kwargs())
        table.is_distributed = True
        words = f"dim={shape[1]} height={shape[0]}"
        first = attr.initializer._words() if attr.initializer else None
        self.startup_program.global_block().append_op(
            "init_table", attrs={"table": attr.name,
                                 "settings": words + (f" init={first}" if first
                                                      else "")})
        return table

    def create_variable_for_type_inference(self, dtype, stop_gradient=False):
        return self.main_program.current_block()._temporary(
            f"{self.name}.tmp", dtype, stop_gradient=stop_gradient)

    def like(self, x):
        """A variable to be made of the same type as an input, which is one."""
        check_type(x, "input", ir.Variable, self.layer_type)
        return self.create_variable_for_type_inference(x.dtype)

    def create_variable(self, *args, **kwargs):
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable=False, *args, **kwargs):
        return self.main_program.global_block().create_var(
            *args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name, *args, **kwargs):
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var, initializer):
        """The first value of a persistent variable, in startup."""
        block = self.startup_program.global_block()
        twin = block.create_var(name=var.name, shape=var.shape,
                                dtype=var.dtype, persistable=True)
        initializer(twin, block)

    def apply(self, kind, inputs, outputs=("Out",), attrs=None, dtype=None):
        """Appends an operator; what it makes in its first output, whose type
        is that of the first input unless said. Other outputs are made too."""
        first = next(iter(inputs.values()))
        first = first[0] if isinstance(first, (list, tuple)) else first
        made = {outputs[0]: self.like(first) if dtype is None else
                self.create_variable_for_type_inference(dtype)}
        for slot in outputs[1:]:
            made[slot] = self.create_variable_for_type_inference(None, True)
        self.append_op(kind, inputs=inputs, outputs=made, attrs=attrs)
        return made[outputs[0]]

    # --- what often follows ---

    def append_bias_op(self, input_var, dim_start=1, dim_end=None):
        size = list(input_var.shape[dim_start:dim_end])
        if self.bias_attr is False:
            return input_var
        bias = self.create_parameter(self.bias_attr, size, input_var.dtype,
                                     is_bias=True)
        out = self.create_variable_for_type_inference(input_var.dtype)
        self.append_op("elementwise_add", inputs={"X": input_var, "Y": bias},
                       outputs={"Out": out}, attrs={"axis": dim_start})
        return out

    def append_activation(self, input_var):
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        attrs = {"type": act} if isinstance(act, str) else dict(act)
        kind = attrs.pop("type")
        out = self.create_variable_for_type_inference(input_var.dtype)
        self.append_op(kind, inputs={"X": input_var}, outputs={"Out": out},
                       attrs=attrs)
        return out
