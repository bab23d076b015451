"""The methods by the name that chooses them, `method=dann`."""

from collections.abc import Callable

from dann.registry import Registry

# Facts of an entry: `when` says when to pick it; `arguments` are those that make a variant of the
# class; `needs` are arguments without a default, with values to try them; `python` and `command`
# are how to call it where that is not the class or `method=name` alone; `title` is what a page of
# results calls it where that is not its name in capitals.
METHODS: Registry[type] = Registry("method")


def named(is_wanted: Callable[[type], bool]) -> str:
    """Returns the classes of methods that are wanted, as words: "`CDAN`, `DANN` and `MADA`"."""
    classes = sorted({f"`{cls.__name__}`" for cls in METHODS.values() if is_wanted(cls)})
    return " and ".join(part for part in (", ".join(classes[:-1]), classes[-1]) if part)
