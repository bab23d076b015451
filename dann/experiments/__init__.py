"""Many runs: sweeps, studies, reproduction, and the tables and pages of their results."""
