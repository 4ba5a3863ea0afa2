"""Models at rest. A model is a folder of versions that Flotilla's tools read
(docs/formats/model.md); files of PaddlePaddle 1.8 are read as well, and written
where a file is named (docs/formats/python.md)."""
from . import ir
from .io_inference import load_inference_model, save_inference_model
from .io_state import (load, load_program_state, save, set_program_state)
from .io_vars import (get_program_parameter, get_program_persistable_vars,
                      is_belong_to_optimizer, is_parameter, is_persistable,
                      load_params, load_persistables, load_vars, save_params,
                      save_persistables, save_vars, valid_program,
                      value_of)

_get_valid_program = valid_program


def get_parameter_value(para, executor):
    """The value of a parameter in the scope."""
    if not is_parameter(para):
        raise AssertionError(f"The input variable is not parameter: {para}")
    return value_of(para.name)


def get_parameter_value_by_name(name, executor, program=None):
    """The value of a parameter of a program in the scope."""
    program = program or ir.default_main_program()
    return get_parameter_value(program.global_block().var(name), executor)
