"""Ways in which a file breaks: on a disk, in a copy, by somebody's hand."""

import numpy as np


def flip_a_bit(content, rng):
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    return content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def cut(content, rng):
    return content[: int(rng.integers(len(content)))]


def zero_a_block(content, rng):
    start = int(rng.integers(len(content)))
    size = min(len(content) - start, int(rng.integers(1, 4096)))
    return content[:start] + bytes(size) + content[start + size :]


def zero_all(content, rng):
    return bytes(len(content))


def empty(content, rng):
    return b""


def append(content, rng):
    return content + rng.bytes(int(rng.integers(1, 100)))


def swap_blocks(content, rng):
    """Exchanges two stretches of the same size, such as a header and a part of the body."""
    size = max(1, len(content) // int(rng.integers(3, 40)))
    first, second = sorted(int(rng.integers(len(content) - size + 1)) for _ in range(2))
    if second < first + size:
        return content[first:] + content[:first]
    blocks = content[first : first + size], content[second : second + size]
    between = content[first + size : second]
    return content[:first] + blocks[1] + between + blocks[0] + content[second + size :]


def inflate_a_number(content, rng):
    """Writes a huge integer somewhere, as a size would stand in a header."""
    kind = ("<i4", ">i4", "<i8", ">i8", "<u2", ">u2")[int(rng.integers(6))]
    number = np.array(np.iinfo(kind).max - int(rng.integers(3)), kind).tobytes()
    place = int(rng.integers(max(1, min(len(content), 4096))))
    return content[:place] + number + content[place + len(number) :]


def inflate_digits(content, rng):
    """Makes a decimal number longer, as in a header that is text."""
    digits = np.flatnonzero((values := np.frombuffer(content, "u1")) // 16 == 3)
    digits = digits[values[digits] <= ord("9")]
    if not len(digits):
        return flip_a_bit(content, rng)
    place = int(rng.choice(digits[:200]))
    count = int(rng.integers(1, 12))
    if rng.integers(2):  # in the place of what follows, so that all else stays where it was
        return content[:place] + b"9" * count + content[place + count :]
    return content[:place] + b"9" * count + content[place:]


EVERY = (
    flip_a_bit,
    cut,
    zero_a_block,
    zero_all,
    empty,
    append,
    swap_blocks,
    inflate_a_number,
    inflate_digits,
)


def mutated(content, rng):
    """Returns a mutation, now and then of a mutation, and never the content itself."""
    found = content
    while found == content:
        # Rather the ways that leave most of a file as it was.
        weights = np.array([8, 2, 4, 0.2, 0.1, 1, 3, 5, 4])
        for _ in range(1 + int(rng.integers(4) == 0)):
            if found:
                found = rng.choice(EVERY, p=weights / weights.sum())(found, rng)
    return found
