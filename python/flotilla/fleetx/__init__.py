"""fleetx: a built-in model, its data and a loop over both, in a few lines."""
from . import applications
from .configs import parse_train_configs
from .trainer import CPUTrainer, MultiGPUTrainer, Trainer
