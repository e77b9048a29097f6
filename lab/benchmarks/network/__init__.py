"""Links between ranks with a bandwidth and a delay of our choosing: namespaces and a switch."""
