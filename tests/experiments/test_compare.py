"""Comparisons of methods on tiny arrays."""

import functools
from unittest import mock

import keras
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import special

import dann
from dann.selection import agreement, compute_outputs, info_max

STEPS, SEEDS = 8, [0, 1]


def backbone():
    return dann.networks.mlp_backbone((3,), hidden_units=(4,))


def make_domains(has_target_labels):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    inputs = rng.normal(size=(90, 3)) + np.eye(3)[labels]
    target = inputs[::-1] + 2.0
    return dann.data.arrays(
        (inputs, labels), (target, labels[::-1]) if has_target_labels else target
    )


@pytest.fixture(scope="module")
def comparison():
    methods = {"mine": lambda backbone, classes: dann.CDAN(backbone, classes, strength=0.5)}
    return dann.compare(
        make_domains(True), methods, backbone=backbone, seeds=SEEDS, steps=STEPS, batch_size=16
    )


def train_by_hand(seed):
    """Repeats the training of a row."""
    data = make_domains(True)
    dann.training.start(seed)
    model = dann.CDAN(backbone(), data.num_classes, strength=0.5)
    model.compile(keras.optimizers.Adam())
    model.fit(data.batches(16, seed), steps_per_epoch=STEPS, verbose=0)
    return data, model


def test_row_matches_a_training_by_hand(comparison):
    classes = []
    for seed in SEEDS:
        data, model = train_by_hand(seed)
        row = comparison.runs.query(f"setting == 'mine' and seed == {seed}").iloc[0]
        inputs, labels = data.target_test
        accuracy = np.mean(model.predict(inputs, verbose=0).argmax(axis=1) == labels)
        assert row["target/accuracy"] == pytest.approx(accuracy)
        outputs = compute_outputs(model, target=data.target_train, features=False, mixed=False)
        assert row["selection/info_max"] == pytest.approx(info_max(outputs), rel=1e-4)
        classes.append(outputs.target_logits)
    values = comparison.runs.query("setting == 'mine'")["selection/agreement"]
    np.testing.assert_allclose(values, agreement(classes))


def test_upper_bound_learns_from_target_labels(comparison):
    data = make_domains(True)
    dann.training.start(0)
    model = dann.TargetOnly(backbone(), data.num_classes)
    model.compile(keras.optimizers.Adam())
    model.fit(data.oracle().batches(16, 0), steps_per_epoch=STEPS, verbose=0)
    outputs = compute_outputs(model, target=data.target_train, features=False, mixed=False)
    row = comparison.runs.query("setting == 'target_only' and seed == 0").iloc[0]
    assert row["selection/info_max"] == pytest.approx(info_max(outputs), rel=1e-4)


def test_candidates_include_source_only_but_no_oracle(comparison):
    assert set(comparison.ranked["setting"]) == {"source_only", "mine", "average"}
    assert set(comparison.table.index) == {"source_only", "mine", "average", "target_only"}
    assert (comparison.table["target/accuracy"]["count"] == 2).all()
    assert set(comparison.classifiers) == {"source_only", "mine"}


def probabilities(classifier, inputs):
    return special.softmax(np.asarray(classifier(inputs)), axis=1)


def test_average_covers_candidates_and_classifier_covers_seeds(comparison):
    inputs, labels = make_domains(True).target_test
    settings = comparison.classifiers.values()
    means = [
        np.mean([probabilities(networks[seed], inputs) for networks in settings], axis=0)
        for seed in SEEDS
    ]
    for seed, mean in zip(SEEDS, means, strict=True):
        row = comparison.runs.query(f"setting == 'average' and seed == {seed}").iloc[0]
        assert row["target/accuracy"] == pytest.approx(np.mean(mean.argmax(axis=1) == labels))
    assert comparison.choice == "average"  # the target is shifted
    np.testing.assert_allclose(comparison.classifier(inputs), np.mean(means, axis=0), atol=1e-6)
    comparison.recommendation = comparison.recommendation._replace(choice="source_only")
    mean = np.mean(
        [probabilities(c, inputs) for c in comparison.classifiers["source_only"].values()], axis=0
    )
    np.testing.assert_allclose(comparison.classifier(inputs), mean, atol=1e-6)
    comparison.recommendation = comparison.recommendation._replace(choice="average")


def test_comparison_is_printed_and_drawn(comparison, tmp_path):
    text = str(comparison)
    assert "95% interval" in text
    assert f"recommended: {comparison.choice}" in text
    assert text.count("not ranked: target_only, in seed") == 2
    mean = comparison.table["target/accuracy"]["mean"]["mine"]
    row = next(line for line in text.splitlines() if line.startswith("mine "))
    assert f"{mean:.1%}" in row
    comparison.plot(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_comparison_without_target_labels_has_no_oracle():
    settings = {"backbone": backbone, "seeds": [0], "steps": 2, "batch_size": 8, "verbose": False}
    comparison = dann.compare(make_domains(False), [dann.DANN, "els"], **settings)
    assert list(comparison.table.index.sort_values()) == ["DANN", "average", "els", "source_only"]
    assert comparison.runs["target/accuracy"].isna().all()
    assert comparison.key == "selection/info_max"
    assert "agreement needs several seeds" in str(comparison)
    with mock.patch.object(Figure, "savefig", autospec=True) as savefig:
        comparison.plot("a.png")
    (panel,) = savefig.call_args.args[0].axes  # no empty panel for the target accuracy
    assert panel.get_xlabel() == "selection/info_max\n(higher is better)"


def broken(backbone, classes):
    model = dann.DANN(backbone, classes)
    model.label_head.set_weights([np.nan * weight for weight in model.label_head.get_weights()])
    return model


def test_diverged_run_has_no_rank():
    settings = {"backbone": backbone, "seeds": [0], "steps": 2, "batch_size": 8}
    comparison = dann.compare(make_domains(False), [broken], **settings)
    assert list(comparison.ranked["setting"]) == ["source_only"]
    assert "not ranked: broken, in seed 0 (no selection/info_max)" in str(comparison)


def test_mdan_receives_the_sources_of_the_data():
    domains = dann.data.join_sources([make_domains(False)] * 3)
    created = []

    class Recorded(dann.MDAN):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            created.append(self.num_sources)

    options = {"backbone": backbone, "seeds": [0], "steps": 1, "batch_size": 9, "verbose": False}
    three = functools.partial(Recorded, num_sources=3)
    comparison = dann.compare(domains, {"class": Recorded, "partial": three}, **options)
    assert created == [3, 3]
    assert {"class", "partial"} < set(comparison.table.index)
    assert "mdan" in dann.compare(domains, ["mdan"], **options).table.index


DOMAINS = make_domains(False)
REFUSALS = {
    "unknown method": ({"methods": ["danna"]}, "methods.*danna"),
    "a method as a text": ({"methods": "dann"}, r"`methods` to be a list.*\['dann', 'cdan'\]"),
    "a model as method": ({"methods": [backbone()]}, r"functions of `\(backbone, num_classes\)`"),
    "a text in a dict": ({"methods": {"mine": "dann"}}, "Received: 'dann'"),
    "a number of seeds": ({"seeds": 3}, r"`seeds`.*range\(3\).*seeds=3"),
    "no steps": ({"steps": 0}, "steps=0"),
    "a model as backbone": ({"backbone": backbone()}, "`backbone` to be a function.*lambda"),
    "an optimizer": ({"optimizer": keras.optimizers.Adam()}, "`optimizer` to be a function"),
    "a name of an optimizer": ({"optimizer": "adam"}, "`optimizer` to be a function"),
    "pairs": ({"domains": DOMAINS.batches(8)}, "`dann.data.arrays"),
    "arrays": ({"domains": (*DOMAINS.source_train, DOMAINS.target_train)}, "`dann.data.arrays"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSALS.values(), ids=list(REFUSALS))
def test_wrong_arguments_are_refused(arguments, words, capsys):
    with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        dann.compare(**{"domains": DOMAINS, "backbone": backbone, **arguments})
    assert not capsys.readouterr().out
