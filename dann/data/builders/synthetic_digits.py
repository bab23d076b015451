"""Synthetic digits: printed numbers that look a little like house numbers."""

import functools
import pathlib

import matplotlib
import numpy as np
import tensorflow_datasets as tfds
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from dann.data.builders.digit_images import DigitImages

_SIZE = 32
_SCALE = 2  # ink is drawn larger, so that turning and scaling leave no jagged edges
_EM = 64
_CONTRAST = 80
_LUMA = np.array([0.299, 0.587, 0.114])
_SPLITS = {
    "small": {"train": 20_000, "test": 4_000},
    "full": {"train": 479_400, "test": 9_553},
}
_FONTS = (
    *map("DejaVuSans{}".format, ("", "-Bold", "-Oblique", "-BoldOblique")),
    *map("DejaVuSansMono{}".format, ("", "-Bold", "-Oblique", "-BoldOblique")),
    *map("DejaVuSerif{}".format, ("", "-Bold", "-Italic", "-BoldItalic")),
    *map("STIXGeneral{}".format, ("", "Bol", "Italic", "BolIta")),
    *("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10"),
)


class SyntheticDigits(DigitImages):
    """TFDS builder of synthetic digits, 32x32 in colour, with no download.

    Numbers of one, two or three digits, printed in one of matplotlib's text fonts, differ in
    position, orientation, size, spacing, blur and in the colours of stroke and background. The
    label is the digit in the middle; others stand beside it. They resemble SVHN's, as a source.

    The configuration `full` has the published sizes, 479,400 and 9,553 images; `small`, the
    default, is the first 20,000 and 4,000 of them. An image depends only on its split and number.
    Other versions of Pillow or of the fonts may draw it a little differently.

    Reference:
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.2.4.
    """

    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="small", description="20,000 images to train on."),
        tfds.core.BuilderConfig(name="full", description="479,400 images, as in the paper."),
    ]

    SHAPE = (_SIZE, _SIZE, 3)

    def read_examples(self, split, dl_manager):
        return _numbers(int(split == "test"), _SPLITS[self.builder_config.name][split])


def _numbers(seed, count):
    for index in range(count):
        yield draw_number(np.random.default_rng((seed, index)))


def draw_number(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Draws a number of one, two or three digits, `ink * stroke + (1 - ink) * background`.

    Stroke and background are two random colours whose luma differs by at least 80 of 255. The
    labelled digit is 15 to 26 pixels high, at most 2 pixels off the middle and turned by at most
    20 degrees either way; the blur's radius is 0.2 to 1.1 pixels.

    Args:
        rng: Source of all draws.

    Returns:
        The image, uint8 `(32, 32, 3)`, and the digit in its middle.
    """
    font = _FONTS[rng.integers(len(_FONTS))]
    digits = rng.integers(10, size=rng.integers(1, 4))
    # With two digits, either may be in the middle.
    middle = int(rng.integers(2)) if len(digits) == 2 else len(digits) // 2
    ink = _print(
        digits,
        middle,
        font,
        gap=rng.uniform(-0.02, 0.15),
        height=rng.uniform(15, 26),
        angle=np.deg2rad(rng.uniform(-20, 20)),
        shift=rng.uniform(-2, 2, size=2),
    )
    blur = ImageFilter.GaussianBlur(_SCALE * rng.uniform(0.2, 1.1))
    ink = ink.filter(blur).reduce(_SCALE)
    stroke, background = (Image.new("RGB", ink.size, colour) for colour in _two_colours(rng))
    return np.asarray(Image.composite(stroke, background, ink)), int(digits[middle])


def _print(digits, middle, font, gap=0.0, height=20.0, angle=0.0, shift=(0.0, 0.0)):
    """Ink of a number, turned about the digit in the middle: an image `_SCALE` times as large."""
    face = _face(font)
    _, top, _, bottom = face.getbbox("0", anchor="ms")
    advance = (1 + gap) * face.getlength("0")  # one width for all digits, in all these fonts
    centre = np.array([2 * _EM, _EM])
    sheet = Image.new("L", tuple(2 * centre))
    pen = ImageDraw.Draw(sheet)
    for place, digit in enumerate(digits):
        start = centre[0] + (place - middle) * advance, centre[1] - (top + bottom) / 2
        pen.text(start, str(digit), fill=255, font=face, anchor="ms")
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    matrix = turn * (bottom - top) / (_SCALE * height)  # from the image to the sheet
    offset = centre - matrix @ (_SCALE * (_SIZE / 2 + np.asarray(shift)))
    coefficients = tuple(np.column_stack([matrix, offset]).ravel())
    size = (_SCALE * _SIZE, _SCALE * _SIZE)
    return sheet.transform(
        size, Image.Transform.AFFINE, coefficients, resample=Image.Resampling.BILINEAR
    )


@functools.cache
def _face(font):
    path = pathlib.Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    return ImageFont.truetype(path, _EM, layout_engine=ImageFont.Layout.BASIC)


def _two_colours(rng):
    """Two random colours, drawn until their luma differs enough."""
    while True:
        colours = rng.integers(256, size=(2, 3))
        if abs((colours[0] - colours[1]) @ _LUMA) >= _CONTRAST:
            return [tuple(colour) for colour in colours.tolist()]
