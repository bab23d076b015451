"""The digest that tells whether two runs have the same settings."""

import pathlib

import pytest
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from support.configs import CONF, composed

from dann import config
from dann.config.schema import PathsConfig, ReproduceConfig
from dann.experiments.reproduction import Reproduction
from dann.experiments.results import read_results

TABLES = [CONF.parent / f"docs/{name}.csv" for name in ("results", "results-gpu")]


@pytest.mark.parametrize(
    ("table", "experiment"),
    sorted({(table, r.experiment) for table in TABLES for r in read_results(table)}),
)
def test_the_rows_of_the_results_have_the_digests_of_their_commands(table, experiment):
    methods = {r.method for r in read_results(table) if r.experiment == experiment}
    settings = ReproduceConfig(
        experiments=[experiment],
        methods=sorted(methods),
        seeds=[0],
        overrides=[],
        runs_dir="unused",
        results=str(table),
        paths=PathsConfig(),
    )
    with initialize_config_dir(str(CONF), version_base="1.3"):
        made = Reproduction(
            settings, pathlib.Path("unused"), config.digest_of_command, config.digest_of_run
        )
    assert {method for _, method in made.digests} == methods  # it refuses other digests


@pytest.mark.parametrize(
    ("base", "off"),
    [
        ([], "+optimizer.learning_rate.alpha=0"),
        ([], "+optimizer.learning_rate.beta=0"),
        (["experiment=digits_mnist_to_mnist_m"], "+augmentation.blend.roll=false"),
        (["network=binary_lenet"], "network.backbone.input_estimator=null"),
    ],
)
def test_the_digest_sees_that_what_is_on_by_default_is_off(base, off):
    assert config.settings_digest(composed(*base, off)) != config.settings_digest(composed(*base))


def test_the_digest_leaves_out_where_images_are_kept():
    data = ["data=tfds", "data.source=a", "data.target=b"]
    first = config.settings_digest(composed(*data))
    assert config.settings_digest(composed(*data, "data.cache=none")) == first
    assert config.settings_digest(composed(*data, "data.channels=1")) != first
    own = ["data._target_=mine.pair", *data]  # what it means there we do not know
    assert config.settings_digest(composed(*own, "data.cache=none")) != config.settings_digest(
        composed(*own)
    )


def test_the_digest_separates_settings_that_matter_from_those_that_do_not():
    first = config.settings_digest(composed())
    same = ("seed=3", "callbacks=none", "compare=false", "paths.cache_dir=elsewhere")
    same += ("trainer.steps_per_execution=1", "trainer.steps_per_execution=auto")
    for override in (*same, "balanced=false", "regularizer=none", "selection=none"):
        assert config.settings_digest(composed(override)) == first
    others = ("trainer.steps=3", "method=source_only", "balanced=true", "augmentation=affine")
    others += ("regularizer=mcc", "regularizer=[mcc,entropy]", "selection.keep=snd")
    digests = {config.settings_digest(composed(override)) for override in others}
    assert len(digests | {first}) == len(others) + 1


def test_the_digest_sees_what_is_off_in_other_packages_and_callbacks_that_act():
    adam = composed("optimizer=adam")
    without = composed("optimizer=adam", "+optimizer.beta_1=0.0")
    stopped = composed("optimizer=adam", "+callbacks.stop._target_=keras.callbacks.EarlyStopping")
    logged = composed("optimizer=adam", "callbacks=diagnostics")
    digests = [config.settings_digest(cfg) for cfg in (adam, without, stopped, logged)]
    assert len(set(digests)) == 3
    assert digests[0] == digests[3]


def test_the_digest_of_a_run_without_regularizers_is_that_of_a_time_without_the_key():
    cfg = OmegaConf.to_container(composed())
    del cfg["regularizers"]
    assert config.settings_digest(OmegaConf.create(cfg)) == config.settings_digest(composed())


def test_a_finished_run_has_the_digest_of_its_command(tmp_path):
    cfg = composed("trainer.steps=3")
    (tmp_path / ".hydra").mkdir()
    OmegaConf.save(cfg, tmp_path / ".hydra/config.yaml")
    assert config.digest_of_run(tmp_path) is None  # it is not finished
    assert config.digest_of_run(tmp_path / ".hydra/config.yaml") is None  # nor a folder
    (tmp_path / "summary.json").write_text('{"seed": 4, "me')
    assert config.digest_of_run(tmp_path) is None
    (tmp_path / "summary.json").write_text("{}")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = ["trainer.steps=3", "paths.run_dir=other", "seed=4"]
        assert config.digest_of_run(tmp_path) == config.digest_of_command(overrides)
