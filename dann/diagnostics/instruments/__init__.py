"""What several diagnostics measure with."""
