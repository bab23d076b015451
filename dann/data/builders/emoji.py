"""TFDS builder of emoji in seven drawing styles."""

import hashlib
import io
import itertools
import json
import pathlib
import re
import tarfile
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from dann.data.builders.image_builder import ImageBuilder, raw_folder

# The npm package of each style, `@iconify-json/<package>`, and its version. The versions are fixed,
# so that the pixels are the same on every machine.
STYLES = {
    "noto": ("noto", "1.2.9"),
    "twemoji": ("twemoji", "1.2.5"),
    "openmoji": ("openmoji", "1.2.29"),
    "emojione": ("emojione", "1.2.3"),
    "emojione_v1": ("emojione-v1", "1.2.3"),
    "fluent_flat": ("fluent-emoji-flat", "1.2.6"),
    "fluent_high_contrast": ("fluent-emoji-high-contrast", "1.2.6"),
}
SIZES = (48, 128)  # pixels
LABELS = {
    "groups": (
        *("smileys-emotion", "people-body", "animals-nature", "food-drink"),
        *("travel-places", "activities", "objects"),
    ),
    # The subgroups of which at least 15 concepts have a drawing in every style but emojione_v1.
    "subgroups": (
        *("face-concerned", "heart", "person-sport", "animal-mammal", "food-fruit"),
        *("food-prepared", "place-building", "place-other", "transport-ground", "time"),
        *("sky-weather", "event", "sport", "clothing", "light-video", "book-paper", "office"),
        *("tool", "arrow", "av-symbol", "geometric", "other-symbol", "alphanum"),
    ),
}
# Upper ends of the intervals of a concept's hash in [0, 1).
_SPLITS = {"source_train": 0.35, "source_test": 0.45, "target_train": 0.8, "target_test": 1.0}
_LATEST = 3  # version of the emoji standard; most styles draw all emoji up to it


class Emoji(ImageBuilder):
    """TFDS builder of emoji drawn in seven styles by five makers.

    A configuration `<style>_<size>_<labels>` contains the drawings of one style on white, at 48x48
    or 128x128 pixels, with the 7 `groups` or 23 `subgroups` of Unicode's emoji list as classes. It
    uses all emoji up to version 3 of the standard, except skin tones, joined sequences such as
    families, flags and, for groups, symbols. If two drawings are equal, only the first is used.

    The splits `source_train`, `source_test`, `target_train` and `target_test` contain different
    concepts. The split of a concept follows from the SHA-256 of its code points, so it is the same
    in every style.

    The raw files are npm packages in `emoji/`: `npm pack @iconify-json/<style>` and `npm pack
    emojibase-data`, of the versions in `STYLES`. The package resvg-py renders the drawings.

    Reference:
        - [Iconify](https://icon-sets.iconify.design), with the license of each style;
          [Emojibase](https://emojibase.dev) for the names and groups.
    """

    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name=f"{style}_{size}_{labels}", description=f"{style}, {size} pixels, {labels}."
        )
        for style, size, labels in itertools.product(STYLES, SIZES, LABELS)
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Tarballs of `npm pack` in `emoji/`."
    SPLITS = tuple(_SPLITS)

    @property
    def SHAPE(self):  # noqa: N802
        return (*[int(self._config[1])] * 2, 3)

    @property
    def CLASS_NAMES(self):  # noqa: N802
        return LABELS[self._config[2]]

    @property
    def _config(self):
        """The style, the size and the kind of labels."""
        return self.builder_config.name.rsplit("_", 2)

    def read_examples(self, split, dl_manager):
        style, size, labels = self._config
        folder = raw_folder(dl_manager, "emoji") or pathlib.Path("emoji")
        package, version = STYLES[style]
        icons = _read_json(folder, f"@iconify-json/{package}", version, "icons.json")
        emoji = _read_json(folder, "emojibase-data", "17.0.0", "en/data.json")
        names = _read_json(folder, "emojibase-data", "17.0.0", "meta/groups.json")
        drawings = set()
        for entry in emoji:
            name = re.sub(r"[^a-z0-9]+", "-", entry["label"].lower()).strip("-")
            label = names[labels].get(str(entry.get(labels[:-1])))
            is_drawn = name in icons["icons"] or name in icons.get("aliases", {})
            is_joined = "200D" in entry["hexcode"]  # of several emoji, such as families
            if entry["version"] > _LATEST or label not in self.CLASS_NAMES or is_joined:
                continue
            svg = to_svg(icons, name) if is_drawn else None
            if svg is None or svg in drawings:  # a few styles draw two concepts alike
                continue
            drawings.add(svg)
            if split_concept(entry["hexcode"]) == split:
                yield render(svg, int(size)), label


def split_concept(hexcode: str) -> str:
    """Returns the split of a concept, given its code points such as `"1F600"`."""
    position = int.from_bytes(hashlib.sha256(hexcode.encode()).digest()[:8], "big") / 2**64
    return next(split for split, end in _SPLITS.items() if position < end)


def to_svg(icons: dict[str, Any], name: str) -> str:
    """Returns the drawing of an icon set as an SVG document.

    Args:
        icons: Content of `icons.json` of a package of Iconify.
        name: Name of an icon or an alias. An alias may mirror its parent.
    """
    icon, is_mirrored = icons["icons"].get(name), False
    while icon is None:
        alias = icons["aliases"][name]
        name, is_mirrored = alias["parent"], is_mirrored ^ alias.get("hFlip", False)
        icon = icons["icons"].get(name)
    x, y = icon.get("left", 0), icon.get("top", 0)
    width, height = (icon.get(side, icons[side]) for side in ("width", "height"))
    body = icon["body"]
    if is_mirrored:
        body = f'<g transform="translate({2 * x + width} 0) scale(-1 1)">{body}</g>'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="128" height="128" viewBox="{x} {y} {width} {height}">{body}</svg>'
    )


def render(svg: str, size: int) -> np.ndarray:
    """Renders an SVG document on white, as uint8 `(size, size, 3)`."""
    try:
        import resvg_py
    except ImportError as error:
        raise ImportError("Emoji need resvg-py. Write `pip install resvg-py`") from error
    png = resvg_py.svg_to_bytes(
        svg_string=svg, width=size, height=size, background="#ffffff", skip_system_fonts=True
    )
    with Image.open(io.BytesIO(bytes(png))) as image:
        return np.asarray(image.convert("RGB"))


def _read_json(folder, package, version, name):
    """Reads a file of an npm package from the tarball that `npm pack` downloads."""
    path = folder / f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected {path}. Fetch it with `npm pack {package}@{version}` in that folder, and "
            "set `data_dir` (paths.data_dir) to the folder that contains emoji/"
        )
    with tarfile.open(path) as archive:
        content: Any = archive.extractfile(f"package/{name}")
        return json.load(content)
