"""Signs as bits in 64-bit words."""

import numpy as np

WORD = 64


def words_for(size: int) -> int:
    """Returns how many words hold `size` bits."""
    return -(-size // WORD)


def pack_bits(positive: np.ndarray) -> np.ndarray:
    """Packs the last axis into 64-bit words.

    Bit `i % 64` of word `i // 64`, counted from the least significant, is set where element `i` is
    true. A set bit stands for +1, another for -1. The unused bits of the last word are 0.

    Args:
        positive: Boolean array `(..., size)`.

    Returns:
        Array `(..., words_for(size))` of `uint64`.

    Example:

    >>> import numpy as np
    >>> from dann.deployment.bits import pack_bits
    >>> pack_bits(np.array([True, False, True])).tolist()
    [5]
    """
    size = positive.shape[-1]
    octets = np.packbits(positive, axis=-1, bitorder="little")
    if size % WORD:
        whole = np.zeros((*positive.shape[:-1], words_for(size) * 8), "uint8")
        whole[..., : octets.shape[-1]] = octets
        octets = whole
    return np.ascontiguousarray(octets).view("<u8").astype("uint64", copy=False)


def unpack_bits(words: np.ndarray, size: int) -> np.ndarray:
    """Returns the bits that `pack_bits` packed, a boolean array `(..., size)`."""
    octets = np.ascontiguousarray(words).astype("<u8", copy=False).view("uint8")
    return np.unpackbits(octets, axis=-1, count=size, bitorder="little").view(bool)


def unpack_signs(words: np.ndarray, size: int) -> np.ndarray:
    """Returns the signs, +1 or -1, that the bits stand for: `(..., size)` of `float32`."""
    return np.where(unpack_bits(words, size), np.float32(1), np.float32(-1))


def count_bits(words: np.ndarray) -> np.ndarray:
    """Returns how many bits of each word are set."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    octets = np.ascontiguousarray(words)[..., None].view("uint8")
    return _BITS_OF_OCTET[octets].sum(axis=-1, dtype="uint8")


# NumPy counts bits from version 2 on.
_BITS_OF_OCTET = np.unpackbits(np.arange(256, dtype="uint8")[:, None], axis=1).sum(axis=1)
