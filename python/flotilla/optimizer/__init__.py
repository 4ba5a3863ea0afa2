"""Optimizers: minimize(loss) writes gradients, clipping, decay and updates."""
from .around import (DGCMomentumOptimizer, LookaheadOptimizer,
                     PipelineOptimizer, RecomputeOptimizer)
from .average import ExponentialMovingAverage, ModelAverage
from .base import Optimizer
from .rules import *
