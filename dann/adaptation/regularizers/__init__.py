"""Losses on the target that can be added to any method, one per file."""
