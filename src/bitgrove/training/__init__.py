"""The loop over trees: gradients, rounding, growth, leaf values, scores, metrics.

Receives parameters and Datasets; returns a Model, whichever backend and Comm it runs on.
"""

from bitgrove.training.booster import TrainInfo
from bitgrove.training.train import train

__all__ = ["TrainInfo", "train"]
