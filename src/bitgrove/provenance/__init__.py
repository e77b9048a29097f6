"""Where a model comes from: fingerprints of training data, and the record that a model keeps."""
