"""The finished model: trees, the file, prediction.

Receives trees from training, or bytes; returns predictions, and
bytes that are equal when the models are.
"""

from bitgrove.model.model import Model, load

__all__ = ["Model", "load"]
