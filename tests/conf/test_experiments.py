"""Every experiment of `conf/experiment/`, and those whose data a test can mock through a run."""

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image
from support.configs import CONF, composed
from tiny_digits import use_tiny_digits

from dann import config, training

EXPERIMENTS = sorted((CONF / "experiment").glob("*.yaml"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_begins_with_its_command_and_says_the_rest_in_ten_lines(path):
    head, *lines = path.read_text().splitlines()
    comment = lines[: lines.index("defaults:")]
    assert head == "# @package _global_"
    assert comment[0].startswith("# python scripts/train.py experiment=")
    assert all(line.startswith("# ") for line in comment)
    assert len(comment) <= 10


RECIPE = "optimizer", "schedule", "regularizers", "method"
PUBLISHED = "network", "schedule", "augmentation", "method", "selection"
TASKS = "mnist_to_mnist_m", "mnist_to_usps", "usps_to_mnist"
DIGITS = "trainer", "network", "optimizer", "augmentation", "method", "balanced", "schedule"


@pytest.mark.parametrize(
    ("one", "other", "groups"),
    [
        *((task, "recipe", RECIPE) for task in TASKS),
        *((task, "recipe", ["augmentation"]) for task in TASKS[1:]),
        *((f"digits_{task}", "digits_recipe", DIGITS) for task in TASKS),
        *((f"teacher_{task}", "teacher", [*DIGITS, "regularizers", "selection"]) for task in TASKS),
        *((f"{kind}_{task}", task, ["data"]) for task in TASKS for kind in ("digits", "teacher")),
        ("mnist_to_usps", "usps_to_mnist", ["trainer", "network", "selection"]),
        ("protocol_mnist_to_usps", "protocol_usps_to_mnist", PUBLISHED),
    ],
)
def test_experiments_share_their_settings(one, other, groups):
    plain = [OmegaConf.to_container(composed(f"experiment={name}")) for name in (one, other)]
    for group in groups:
        assert plain[0][group] == plain[1][group]


def train(tmp_path, *overrides):
    """What `scripts/train.py` does, in this process, for two steps."""
    short = ["trainer.steps=2", "trainer.batch_size=4", "callbacks=none"]
    paths = [f"paths.run_dir={tmp_path}/run", f"paths.cache_dir={tmp_path}/cache"]
    cfg = composed(*overrides, *short, *paths)
    domains = config.build_domains(cfg)
    model = config.build_model(cfg, cfg.method, domains.input_shape, domains.num_classes)
    training.compile_model(model, config.build_optimizer(cfg, model), cfg.trainer)
    run = training.Run(cfg.paths.run_dir, domains, cfg.trainer, cfg.seed, model)
    return domains, run.train()


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("svhn_to_mnist", "dann"),
        pytest.param("synthetic_digits_to_svhn", "target_only", marks=pytest.mark.slow),
    ],
)
def test_the_papers_digit_experiments_run_on_tiny_data(name, method, tmp_path, monkeypatch):
    use_tiny_digits(monkeypatch)
    domains, summary = train(tmp_path, f"experiment={name}", f"method={method}")
    assert domains.input_shape == (32, 32, 3)
    assert domains.num_classes == 10
    assert summary["steps"] == 2
    assert (tmp_path / "run/oracle.csv").is_file()


def test_the_papers_experiment_on_signs_runs_on_folders(tmp_path):
    rng = np.random.default_rng(0)
    for domain in ("synsigns", "gtsrb"):
        for number in range(43):
            folder = tmp_path / domain / f"{number:05d}"
            folder.mkdir(parents=True)
            for index in range(3):
                pixels = rng.integers(0, 256, (45, 50, 3)).astype("uint8")
                Image.fromarray(pixels).save(folder / f"{index}.ppm")
    domains, _ = train(tmp_path, "experiment=synsigns_to_gtsrb", f"paths.data_dir={tmp_path}")
    assert domains.input_shape == (40, 40, 3)
    assert domains.num_classes == 43
