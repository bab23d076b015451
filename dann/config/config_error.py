class ConfigError(Exception):
    """An error that the user can mend: in the command, or in a file that it names."""
