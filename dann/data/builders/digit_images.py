"""What the builders of digit images share: their features, and BibTeX of two sources."""

import tensorflow_datasets as tfds

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
