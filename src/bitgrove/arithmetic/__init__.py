"""The same bits everywhere: exp and log, hashes of row ids, fixed-point sums."""
