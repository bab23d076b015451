"""Many runs: the ranking of a sweep, and experiments over seeds with the table of their results."""
