"""Keras optimizers that binary and adversarial networks need."""
