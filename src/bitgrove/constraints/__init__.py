"""Rules of a training: what trees may do with features, and how their outputs are bounded."""
