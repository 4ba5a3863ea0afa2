"""Optimizers: minimize(loss) writes gradients, clipping, decay and updates."""
from .around import (DGCMomentumOptimizer, LookaheadOptimizer,
                     PipelineOptimizer, RecomputeOptimizer)
from .average import ExponentialMovingAverage, ModelAverage
from .base import Optimizer
from .rules import *
from ..clip import append_gradient_clip_ops
from ..regularizer import append_regularization_ops
