"""The methods by the name that chooses them, `method=dann`."""

from dann.registry import Registry

# Facts of an entry: `when` says when to pick it; `arguments` are those that make a variant of the
# class; `needs` are arguments without a default, with values to try them; `python` and `command`
# are how to call it where that is not the class or `method=name` alone; `title` is what a page of
# results calls it where that is not its name in capitals.
METHODS: Registry[type] = Registry("method")
