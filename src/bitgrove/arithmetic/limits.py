"""How large and how small labels and weights may be: gradients are float32."""

from __future__ import annotations

import numpy as np

# Weights and gradients are float32; this leaves room for their product and difference.
MAX_MAGNITUDE = 1e38
# The smallest normal float32; less is zero to the gradients, and so it is as a weight.
MIN_WEIGHT = float(np.finfo(np.float32).tiny)
