"""Tools with which the diagnostics measure: passes, probes, spectra, ranks, ..."""
