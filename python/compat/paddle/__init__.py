"""PaddlePaddle's names over flotilla: what names.def says, and nothing else."""
from flotilla import compat

__version__ = compat.VERSION
compat.install()
