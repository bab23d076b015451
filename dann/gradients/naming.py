"""Names of functions with a gradient of their own, by which files tell them apart."""

from collections.abc import Callable


def named(function: Callable, name: str | None, *parts: Callable) -> Callable:
    """Gives `function` a name, by default from the functions that it is made of, and returns it.

    Keras registers and saves a function by its name: two with one name would swap places in a file.
    It refuses to save what is called a lambda, so a function with one among its parts is called so.
    """
    names = [getattr(part, "__name__", type(part).__name__) for part in parts]
    joined = "<lambda>" if "<lambda>" in names else "_with_".join(names)
    function.__name__ = name or joined
    return function
