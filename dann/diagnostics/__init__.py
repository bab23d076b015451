"""Measurements of a model on data: is the reversal alive, who is winning, what the Jacobians say."""
