"""Losses on the target that join any method, one a file."""
