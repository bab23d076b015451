"""The binary experiments and their float twins, on tiny data, through every step of a run."""

import keras
import pytest
from support.configs import composed
from test_experiments import train
from tiny_digits import use_tiny_digits

from dann import config
from dann.optimizers import Bop

SMALL = {
    "mlp": "network.backbone.hidden_units=[8,6]",
    "lenet": "network.backbone.filters=[4,6]",
}


@pytest.mark.parametrize(
    ("kind", "network", "binary_layers"),
    [
        ("binary", "mlp", 2),
        ("binary", "lenet", 2),
        pytest.param("float", "lenet", 0, marks=pytest.mark.slow),
    ],
)
def test_mnist_is_classified_in_one_bit_and_by_the_float_twin(
    kind, network, binary_layers, tmp_path, monkeypatch
):
    use_tiny_digits(monkeypatch)
    domains, summary = train(tmp_path, f"experiment=mnist_{kind}_{network}", SMALL[network])
    assert (summary["method"], summary["source"], summary["target"]) == (
        "SourceOnly",
        "mnist",
        "mnist",
    )
    assert domains.input_shape == (28, 28, 1)
    classifier = keras.models.load_model(tmp_path / "run/classifier.keras", safe_mode=True)
    layers = {id(layer): layer for layer in classifier._flatten_layers()}.values()
    assert sum(hasattr(layer, "binary_kernel") for layer in layers) == binary_layers


def optimizer_of(*overrides):
    cfg = composed("optimizer=bop", *overrides)
    model = config.build_model(cfg, cfg.method, (16, 16, 1), 10)
    return config.build_optimizer(cfg, model)


def test_the_split_of_the_command_line_knows_the_binary_kernels():
    optimizer = optimizer_of("network=binary_lenet", "optimizer.optimizers.binary.threshold=0.5")
    [bop, rest] = optimizer.optimizers
    assert isinstance(bop, Bop)
    assert bop.threshold == 0.5
    assert [variable.name for variable in bop._trainable_variables] == ["kernel"] * 3
    assert len(rest._trainable_variables) > 10


def test_the_split_refuses_a_network_without_binary_kernels_before_the_training():
    with pytest.raises(ValueError, match="'binary', which matches none of"):
        optimizer_of("network=cnn")
