"""The tools of the diagnostics: passes, probes, spectra, ranks, ..."""
