"""A check of `.keras` files, before Keras reads them."""

import pathlib
import zipfile

# About the size of a config of a hundred thousand layers. To read a larger one, change this.
MAX_CONFIG_BYTES = 1 << 26
_TEXTS = ("config.json", "metadata.json")
_WEIGHTS = {"model.weights.h5", "model.weights.npz"}
_EXPANSION = 20  # Keras compresses nothing


class KerasFileError(ValueError):
    """A `.keras` file cannot be loaded: broken, too large, or it holds code."""


def check_keras_file(path: pathlib.Path) -> None:
    """Raises an error unless a `.keras` file is a complete archive with parts of sensible sizes.

    Every part is read once to verify its checksum, a piece at a time.

    Raises:
        KerasFileError: If it is broken, lacks a part, or would take far more memory than its size
            suggests.
        OSError: If it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_parts(path, archive, path.stat().st_size)
                broken = archive.testzip()
        except KerasFileError:
            raise
        except Exception as error:  # a broken archive can raise anything
            raise KerasFileError(
                f"Expected a Keras model, a .keras file. Received: {path}, which is cut short, "
                "damaged or something else"
            ) from error
    if broken:
        raise KerasFileError(
            f"Expected a whole .keras file. Received: {path}, in which {broken} is damaged: it "
            "does not have its checksum"
        )


def _check_parts(path, archive, size):
    parts = {part.filename: part.file_size for part in archive.infolist()}
    if not parts.keys() >= set(_TEXTS) or not _WEIGHTS & parts.keys():
        raise KerasFileError(
            f"A .keras file must hold {', '.join(_TEXTS)} and the weights. "
            f"Received: {path} with {', '.join(sorted(parts)[:5]) or 'nothing'}"
        )
    for name in _TEXTS:
        if parts[name] > MAX_CONFIG_BYTES:
            raise KerasFileError(
                f"{name} of a .keras file may have {MAX_CONFIG_BYTES:,} bytes, "
                "`dann.training.keras_file.MAX_CONFIG_BYTES`. "
                f"Received: {path} with {parts[name]:,}"
            )
    total = sum(part.file_size for part in archive.infolist())
    if total > _EXPANSION * size + MAX_CONFIG_BYTES:
        raise KerasFileError(
            f"The parts of a .keras file may have {_EXPANSION} times its size; if you trust it, "
            "pack it again without compression, as Keras does. "
            f"Received: {path} of {size:,} bytes with parts of {total:,}"
        )
