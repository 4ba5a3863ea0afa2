"""fleetx's names over flotilla: what names.def says."""
from flotilla import compat

compat.install()
