"""Programs, blocks, variables and operators: thin faces of the library's own.

There is no second copy of a program in Python.
"""
from .ir_block import Block
from .ir_op import Operator
from .ir_program import (Program, ctx, default_main_program,
                         default_startup_program, executors, program_guard,
                         switch_main_program, switch_startup_program)
from .ir_var import Parameter, Variable, name_of
from .ir_view import UnknownOperator, as_list, grad_var_name, operator_view
from .marks import NameScope, device_guard, name_scope
from .types import VarType
