"""The oracle: plain NumPy, slow and obvious, one leaf at a time, without the core's kernels.

Every other backend must equal it bit for bit. Integers are int64 and never packed, so nothing here
can overflow or borrow. Floats repeat kernels/shared operation by operation.
"""

from bitgrove.backends.host_gradients import output_gradients
from bitgrove.backends.reference.backend import ReferenceBackend

__all__ = ["ReferenceBackend", "output_gradients"]
