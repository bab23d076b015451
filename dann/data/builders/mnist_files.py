"""MNIST from files that are at hand, as a TFDS builder."""

import pathlib

import tensorflow_datasets as tfds

from dann.data.builders.digit_images import digit_images
from dann.data.builders.idx_files import find_mnist, mnist_digest, read_mnist

_CITATION = """
@article{lecun1998gradient,
  title={Gradient-Based Learning Applied to Document Recognition},
  author={LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick},
  journal={Proceedings of the IEEE}, volume={86}, number={11}, pages={2278--2324}, year={1998}
}
"""


class MnistFiles(tfds.core.GeneratorBasedBuilder):
    """TFDS builder of MNIST, 28x28 grey, from the four IDX files in the manual directory.

    TFDS's own `mnist` only downloads, and refuses files that were compressed anew.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = "The four IDX files of MNIST, as they are or in `mnist/`."

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="Handwritten digits.",
            **digit_images(28, 28, 1),
            homepage="http://yann.lecun.com/exdb/mnist/",
            citation=_CITATION,
            metadata=tfds.core.MetadataDict(made_of={}),
        )

    def digests_of(self, folder: pathlib.Path) -> dict[str, str]:
        """Returns the digest of what lies in a manual folder, by part; see `prepared`."""
        try:
            return {"mnist": mnist_digest(find_mnist(folder))}
        except FileNotFoundError:
            return {}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        folder = pathlib.Path(dl_manager.manual_dir)
        paths = find_mnist(folder)
        self.info.metadata["made_of"] = self.digests_of(folder)
        return {split: self._generate_examples(paths, split) for split in ("train", "test")}

    def _generate_examples(self, paths, split):
        images, labels = read_mnist(paths, split)
        for index, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield index, {"image": image[..., None], "label": label}
