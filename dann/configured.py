"""Objects that Keras saves by the arguments of their constructor."""

from typing import Any


class Configured:
    """An object that is what its constructor's arguments say, and so equals another of the same.

    Attributes:
        arguments: Names of these arguments, which it keeps in attributes of these names.
    """

    arguments: tuple[str, ...] = ()

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {name: getattr(self, name) for name in self.arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Makes the object from what `get_config` returned."""
        return cls(**config)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash(type(self))
