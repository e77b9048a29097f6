"""Experiments over random splits, in which ways of training are compared split by split."""
