"""Public data sets, over files that are here already."""
from . import common
