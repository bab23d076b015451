"""What the loops of a C program compute and where it is stored."""

import dataclasses

TYPES = {"float": "float", "int": "int32_t", "bits": "uint32_t"}
# The arrays that hold one row, and their kinds.
ROWS = {
    "values": "float",
    "largest": "float",
    "sums": "int",
    "largest_sums": "int",
    "signs": "bits",
}


@dataclasses.dataclass
class Buffer:
    """An array in memory: its name in C, its kind, its size, and how often it is still read."""

    name: str
    kind: str
    size: int = 0
    readers: int = 0


@dataclasses.dataclass
class Row:
    """What a loop computes at one place, as calls one after the other.

    Args:
        places: How many places there are.
        size: Numbers or signs at a place.
        sources: The buffers that it reads.
        kind: Of the row so far: `"float"`, `"int"` or `"bits"`.
        name: The array that holds it.
        place: The variable of the place.
        calls: Lines of C.
        layers: Names of the layers that it computes.
    """

    places: int
    size: int
    sources: list[Buffer]
    kind: str = ""
    name: str = ""
    place: str = "place"
    calls: list[str] = dataclasses.field(default_factory=list)
    layers: list[str] = dataclasses.field(default_factory=list)

    def call(self, text: str, kind: str | None = None, name: str | None = None) -> None:
        """Adds a call that changes the row, or writes it into another array."""
        self.kind, self.name = kind or self.kind, name or self.name
        self.calls.append(f"{text};")

    def take(self, buffer: Buffer, size: int, first: int = 0) -> None:
        """Adds a call that copies a row of a buffer."""
        function = "copy" if buffer.kind == "float" else "to_signs"
        self.call(
            f"{function}({self.at(buffer, size)}, {size}, values + {first})", "float", "values"
        )

    def at(self, buffer: Buffer, size: int) -> str:
        """Where the row of this place begins in a buffer."""
        return f"{buffer.name} + {words(size, buffer.kind)} * {self.place}"

    def as_floats(self) -> "Row":
        """Makes a row of sums or signs one of floats, and returns it."""
        if self.kind != "float":
            function = "to_floats" if self.kind == "int" else "to_signs"
            self.call(f"{function}({self.name}, {self.size}, values)", "float", "values")
        return self


def words(size: int, kind: str) -> int:
    """How many numbers of C a row of a kind takes."""
    return -(-size // 32) if kind == "bits" else size
