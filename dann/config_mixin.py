"""Objects that Keras saves by the arguments of their constructor."""

from typing import Any


class ConfigMixin:
    """Value object: two instances of a class with equal arguments are equal.

    Attributes:
        arguments: Names of the arguments of the constructor, which are stored in attributes of the
            same names.
    """

    arguments: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {name: getattr(self, name) for name in self.arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Creates an object from the result of `get_config`."""
        return cls(**config)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, value: object) -> bool:
        return type(value) is type(self) and self.get_config() == value.get_config()

    def __hash__(self) -> int:
        return hash(type(self))
