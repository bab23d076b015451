"""Everything that uses Hydra: the schema, the command line, and building objects from a config."""
