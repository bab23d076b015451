"""Methods beside the source alone on tiny arrays."""

import keras
import numpy as np
import pytest
from scipy import special

import dann
from dann.selection import agreement, compute_outputs, info_max

STEPS, SEEDS = 8, [0, 1]


def backbone():
    return dann.networks.mlp_backbone((3,), hidden_units=(4,))


def domains(**known):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    inputs = rng.normal(size=(90, 3)) + np.eye(3)[labels]
    target = inputs[::-1] + 2.0
    return dann.data.arrays((inputs, labels), (target, labels[::-1]) if known else target)


@pytest.fixture(scope="module")
def found():
    methods = {"mine": lambda backbone, classes: dann.CDAN(backbone, classes, strength=0.5)}
    return dann.compare(
        domains(known=True), methods, backbone=backbone, seeds=SEEDS, steps=STEPS, batch_size=16
    )


def by_hand(seed):
    """The training that the table tells of."""
    data = domains(known=True)
    dann.training.start(seed)
    model = dann.CDAN(backbone(), data.num_classes, strength=0.5)
    model.compile(keras.optimizers.Adam())
    model.fit(data.batches(16, seed), steps_per_epoch=STEPS, verbose=0)
    return data, model


def test_a_row_is_the_training_by_hand_with_the_same_seed(found):
    classes = []
    for seed in SEEDS:
        data, model = by_hand(seed)
        row = found.runs.query(f"setting == 'mine' and seed == {seed}").iloc[0]
        inputs, labels = data.target_test
        accuracy = np.mean(model.predict(inputs, verbose=0).argmax(axis=1) == labels)
        assert row["target/accuracy"] == pytest.approx(accuracy)
        outputs = compute_outputs(model, target=data.target_train, features=False, mixed=False)
        assert row["selection/info_max"] == pytest.approx(info_max(outputs), rel=1e-4)
        classes.append(outputs.target_logits)
    seen = found.runs.query("setting == 'mine'")["selection/agreement"]
    np.testing.assert_allclose(seen, agreement(classes))


def test_the_upper_bound_is_trained_on_the_targets_labels(found):
    data = domains(known=True)
    dann.training.start(0)
    model = dann.TargetOnly(backbone(), data.num_classes)
    model.compile(keras.optimizers.Adam())
    model.fit(data.oracle().batches(16, 0), steps_per_epoch=STEPS, verbose=0)
    outputs = compute_outputs(model, target=data.target_train, features=False, mixed=False)
    row = found.runs.query("setting == 'target_only' and seed == 0").iloc[0]
    assert row["selection/info_max"] == pytest.approx(info_max(outputs), rel=1e-4)


def test_source_only_is_a_candidate_and_the_oracle_is_not(found):
    assert set(found.ranked["setting"]) == {"source_only", "mine", "average"}
    assert set(found.table.index) == {"source_only", "mine", "average", "target_only"}
    assert (found.table["target/accuracy"]["count"] == 2).all()
    assert set(found.classifiers) == {"source_only", "mine"}


def probabilities(classifier, inputs):
    return special.softmax(np.asarray(classifier(inputs)), axis=1)


def test_the_average_is_of_all_candidates_of_a_seed_and_the_classifier_of_all_seeds(found):
    inputs, labels = domains(known=True).target_test
    means = [
        np.mean([probabilities(of[seed], inputs) for of in found.classifiers.values()], axis=0)
        for seed in SEEDS
    ]
    for seed, mean in zip(SEEDS, means, strict=True):
        row = found.runs.query(f"setting == 'average' and seed == {seed}").iloc[0]
        assert row["target/accuracy"] == pytest.approx(np.mean(mean.argmax(axis=1) == labels))
    assert found.choice == "average"  # the target is moved
    np.testing.assert_allclose(found.classifier(inputs), np.mean(means, axis=0), atol=1e-6)
    found.recommendation = found.recommendation._replace(choice="source_only")
    mean = np.mean(
        [probabilities(one, inputs) for one in found.classifiers["source_only"].values()], axis=0
    )
    np.testing.assert_allclose(found.classifier(inputs), mean, atol=1e-6)
    found.recommendation = found.recommendation._replace(choice="average")


def test_it_prints_a_row_a_setting_and_draws(found, tmp_path):
    text = str(found)
    assert "95% interval" in text
    assert f"recommended: {found.choice}" in text
    assert text.count("not ranked: target_only, in seed") == 2
    mean = found.table["target/accuracy"]["mean"]["mine"]
    row = next(line for line in text.splitlines() if line.startswith("mine "))
    assert f"{mean:.1%}" in row
    found.plot(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_without_target_labels_there_is_no_oracle_and_the_target_accuracy_is_unknown():
    given = {"backbone": backbone, "seeds": [0], "steps": 2, "batch_size": 8, "verbose": False}
    found = dann.compare(domains(), [dann.DANN, "els"], **given)
    assert list(found.table.index.sort_values()) == ["DANN", "average", "els", "source_only"]
    assert found.runs["target/accuracy"].isna().all()
    assert found.key == "selection/info_max"
    assert "agreement needs several seeds" in str(found)


def broken(backbone, classes):
    model = dann.DANN(backbone, classes)
    model.label_head.set_weights([np.nan * weight for weight in model.label_head.get_weights()])
    return model


def test_a_run_that_diverges_has_no_rank_and_stops_no_other():
    given = {"backbone": backbone, "seeds": [0], "steps": 2, "batch_size": 8}
    found = dann.compare(domains(), [broken], **given)
    assert list(found.ranked["setting"]) == ["source_only"]
    assert "not ranked: broken, in seed 0 (no selection/info_max)" in str(found)


def test_an_unknown_method_is_refused_before_a_training():
    with pytest.raises(ValueError, match="methods"):
        dann.compare(domains(), ["danna"], backbone=backbone)
