"""The methods by the name that chooses them, `method=dann`."""

from dann.registry import Registry

# Facts of an entry: `arguments` are those that make a variant of the class; `needs` are arguments
# without a default, with values to try them.
METHODS: Registry[type] = Registry("method")
