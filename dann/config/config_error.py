class ConfigError(Exception):
    """What the user can mend in the command or the files it names."""
