"""Other libraries and bitgrove behind one contract: base, one adapter per library, and lineup."""
