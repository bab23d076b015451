"""What the builders of digit images share: features, encoding, and BibTeX of two sources."""

import io
import zlib

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

ALPAYDIN_1998 = """
@misc{alpaydin1998optical,
  title={Optical Recognition of Handwritten Digits},
  author={Alpaydin, E. and Kaynak, C.},
  year={1998}, publisher={UCI Machine Learning Repository}, doi={10.24432/C50P49}
}
"""
GANIN_2016 = """
@article{ganin2016domain,
  title={Domain-Adversarial Training of Neural Networks},
  author={Ganin, Yaroslav and Ustinova, Evgeniya and Ajakan, Hana and Germain, Pascal and
          Larochelle, Hugo and Laviolette, Fran{\\c{c}}ois and Marchand, Mario and
          Lempitsky, Victor},
  journal={Journal of Machine Learning Research},
  volume={17}, number={59}, pages={1--35}, year={2016}
}
"""


def digit_images(height: int, width: int, channels: int) -> dict:
    """Returns the features of images of ten digits, for a builder's `_info`."""
    features = {
        "image": tfds.features.Image(shape=(height, width, channels)),
        "label": tfds.features.ClassLabel(num_classes=10),
    }
    return {
        "features": tfds.features.FeaturesDict(features),
        "supervised_keys": ("image", "label"),
    }


def png(image: np.ndarray) -> bytes:
    """Returns an image as a PNG file, which TFDS takes as it is; its own encoder is TensorFlow's.

    Args:
        image: uint8 `(height, width, channels)`, 1 or 3 channels.
    """
    # Photos hardly repeat themselves, so zlib's long search for repetitions finds nothing.
    file = io.BytesIO()
    pixels = image[..., 0] if image.shape[-1] == 1 else image
    Image.fromarray(pixels).save(file, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return file.getvalue()
