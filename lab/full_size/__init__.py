"""The paper's sets at the paper's size: made, trained and judged where they are trained.

rows makes them, judge scores them, training makes one run of them, report says what all runs say
together. On a GPU nothing but labels, trees and numbers leaves it; on a CPU the same code runs on
NumPy arrays.
"""
