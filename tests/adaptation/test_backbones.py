"""Whatever maps inputs to features may be a backbone, whatever maps features to logits a head."""

import itertools

import keras
import numpy as np
import pytest
from keras import layers
from support.toy_backbones import BACKBONES, INPUTS, LABELS, OwnModel

import dann
from dann.adaptation import DANN, DIRTT, MCD, MDAN
from dann.optimizers import faster_heads

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

BOTH = {
    kind: {name: INPUTS[kind](seed) for seed, name in enumerate(("source", "target"))}
    for kind in INPUTS
}
NUMBERS, IMAGES, TOKENS, NAMED = (BOTH[kind] for kind in ("numbers", "images", "tokens", "dict"))
# A layer whose parts are built at its first call cannot be loaded without a warning of Keras's.
BACKBONES = BACKBONES | {"a Dense layer": lambda kind, folder: layers.Dense(6)}
KINDS = [
    *(
        (name, "numbers")
        for name in BACKBONES
        if name not in ("functional", "a layer", "keras.applications")
    ),
    *(("functional", "dict"), ("subclassed", "dict"), ("subclassed", "list")),
    *(("subclassed", "tokens"), ("recurrent", "tokens")),
    pytest.param("keras.applications", "images", marks=pytest.mark.slow),
]


def fitted(model, inputs):
    model.compile(keras.optimizers.Adam(0.01), metrics=["accuracy"])
    model.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    return model


def logits_of(model, inputs):
    return keras.ops.convert_to_numpy(model(inputs["target"], training=False))


def built(layer, size):
    layer.build((None, size))
    return layer


@pytest.mark.parametrize(("backbone", "kind"), KINDS)
def test_a_backbone_of_any_kind_trains_comes_back_and_trains_on_as_before(
    backbone, kind, reloaded, tmp_path
):
    inputs = BOTH[kind]
    model = fitted(DANN(BACKBONES[backbone](kind, tmp_path), num_classes=3), inputs)
    logits = logits_of(model, inputs)
    assert logits.shape == (12, 3)
    model.classifier.save(tmp_path / "classifier.keras")
    alone = keras.models.load_model(tmp_path / "classifier.keras")
    np.testing.assert_allclose(logits_of(alone, inputs), logits, rtol=1e-5, atol=1e-6)
    again = reloaded(model)
    np.testing.assert_allclose(logits_of(again, inputs), logits, rtol=1e-5, atol=1e-6)
    before = np.array(model.trainable_weights[0])
    for one in (model, again):
        one.fit(inputs, LABELS, batch_size=6, shuffle=False, verbose=0)
    assert np.abs(model.trainable_weights[0] - before).max() > 0
    for one, other in zip(model.trainable_weights, again.trainable_weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-6)


METHODS = {entry.name: entry for entry in dann.adaptation.METHODS.entries()}
FEW = {"cdan", "dirt_t", "mcd", "mdan"}  # each makes something else from the features


@pytest.mark.parametrize(
    "name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in METHODS]
)
def test_every_method_takes_a_backbone_that_is_built_at_the_first_batch(name, reloaded):
    entry = METHODS[name]
    settings = {**entry.facts.get("arguments", {}), **entry.facts.get("needs", {})}
    if name == "mdan":
        settings["num_sources"] = 2
    model = entry.thing(OwnModel("dict"), num_classes=3, **settings)
    pair = NAMED | ({"source_domain": np.arange(12) % 2} if name == "mdan" else {})
    assert not model.built
    fitted(model, pair)
    again = reloaded(model)
    logits = logits_of(model, NAMED)
    np.testing.assert_allclose(logits_of(again, NAMED), logits, rtol=1e-5, atol=1e-6)
    old, new = ({w.path: w for w in one.trainable_weights} for one in (model, again))
    assert len(old) == len(new)


def test_parts_that_are_built_late_start_and_learn_like_parts_that_are_built_early():
    logs = []
    for early in (True, False):
        keras.utils.set_random_seed(3)
        entry = [keras.Input((4,))] if early else []
        backbone = keras.Sequential([*entry, layers.Dense(6, kernel_initializer="ones")])
        head = keras.Sequential([layers.Dense(3, kernel_initializer="ones")])
        critic = keras.Sequential([layers.Dense(1, kernel_initializer="ones")])
        model = DANN(backbone, num_classes=3, label_head=head, domain_head=critic)
        model.compile("sgd")
        logs.append(model.fit(NUMBERS, LABELS, shuffle=False, epochs=2, verbose=0).history)
    for name, values in logs[0].items():
        assert values == pytest.approx(logs[1][name], rel=1e-5), name


@pytest.mark.parametrize("kind", ["numbers", "dict"])
def test_building_for_a_shape_makes_the_weights_as_the_first_batch_does(kind, tmp_path):
    inputs = BOTH[kind]
    shapes = keras.tree.map_structure(lambda one: (None, *one.shape[1:]), inputs["source"])
    trained = fitted(DANN(OwnModel(kind), num_classes=3), inputs)
    trained.save_weights(tmp_path / "all.weights.h5")
    model = DANN(OwnModel(kind), num_classes=3)
    model.build(shapes)
    assert model.num_features == trained.num_features
    model.load_weights(tmp_path / "all.weights.h5")
    np.testing.assert_array_equal(logits_of(model, inputs), logits_of(trained, inputs))
    fitted(model, inputs)


def test_lengths_of_sequences_may_change_from_batch_to_batch():
    model = DANN(OwnModel("tokens"), num_classes=3)
    for length in (5, 3):
        shorter = {name: tokens[:, :length] for name, tokens in TOKENS.items()}
        fitted(model, shorter)
        expected = model.label_head(model.backbone(shorter["target"]))
        np.testing.assert_allclose(model.classifier(shorter["target"]), expected, rtol=1e-5)
    assert model.classifier.input_shape == (None, None)


def test_strings_are_inputs_like_any_other(reloaded):
    words = layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    backbone = keras.Sequential([words, layers.Embedding(5, 4), layers.GlobalAveragePooling1D()])
    text = {name: tf.constant([["a b"], ["b b"], ["a"]]) for name in ("source", "target")}
    model = DANN(backbone, num_classes=3)
    model.compile("sgd")
    model.fit(text, LABELS[:3], verbose=0)
    again = reloaded(model)
    np.testing.assert_allclose(logits_of(again, text), logits_of(model, text), rtol=1e-6)


@pytest.mark.parametrize("num_classes", ["3", 2.5, True])
def test_a_number_of_classes_that_is_no_integer_is_refused_before_the_first_batch(num_classes):
    with pytest.raises(TypeError, match="`num_classes` must be an integer of at least 1"):
        DANN(keras.Sequential([keras.layers.Dense(4)]), num_classes=num_classes)


def test_a_label_head_of_any_kind_sets_the_number_of_classes():
    backbone = keras.Sequential([keras.Input((4,)), layers.Dense(6)])
    for head in (layers.Dense(5), OwnModel(units=5), keras.Sequential([layers.Dense(5)])):
        model = MCD(backbone, label_head=head)
        assert model.num_classes == 5
        assert model.classifier.output_shape == (None, 5)
        assert np.abs(model.second_head.get_weights()[0] - head.get_weights()[0]).max() > 0.01


def test_before_the_first_batch_nothing_is_guessed():
    model = DANN(OwnModel(), num_classes=3)
    for ask in (lambda: model.classifier, lambda: model.num_features):
        with pytest.raises(ValueError, match=r"from the first batch on.*inputs\[:1\]"):
            ask()
    model(NUMBERS["source"])
    assert model.num_features == 6
    assert model.classifier.output_shape == (None, 3)
    with pytest.raises(ValueError, match="outputs too, `.*num_classes=3`, because neither"):
        DANN(OwnModel(), label_head=layers.Dense(3))


def test_parts_that_turn_out_not_to_fit_are_refused_at_the_first_batch():
    for head, message in (
        (layers.Dense(4), "`num_classes=3` and the label head must agree.*with 4 outputs"),
        (built(layers.Dense(3), 5), "the backbone's 6 features.*a head for 5"),
    ):
        with pytest.raises(ValueError, match=message):
            DANN(OwnModel(), num_classes=3, label_head=head)(NUMBERS["source"])
    with pytest.raises(ValueError, match=r"have 1 output.*output shape \(None, 2\)"):
        DANN(OwnModel(), 3, domain_head=layers.Dense(2))(NUMBERS["source"])


@pytest.mark.parametrize(
    ("backbone", "write"),
    [
        (layers.Conv2D(2, 3), r"keras.layers.GlobalAveragePooling2D\(\).*\(None, 30, 30, 2\)"),
        (layers.Reshape((-1, 3)), r"GlobalAveragePooling1D\(\).*\(None, 1024, 3\)"),
    ],
)
def test_features_that_are_not_flat_are_refused_with_the_line_to_write(backbone, write):
    with pytest.raises(ValueError, match=f"`keras.Sequential.*{write}"):
        MCD(backbone, num_classes=3)(IMAGES["source"].astype("float32"))


def test_a_second_stage_continues_a_subclassed_network():
    first = fitted(DANN(OwnModel(), num_classes=3), NUMBERS)
    second = DIRTT.from_model(first, radius=0.5)
    np.testing.assert_allclose(logits_of(second, NUMBERS), logits_of(first, NUMBERS), rtol=1e-5)
    assert second.backbone is not first.backbone


def test_several_discriminators_are_made_of_one_layer():
    model = MDAN(OwnModel(), 3, num_sources=2, domain_head=layers.Dense(1))
    model({"source": NUMBERS["source"], "target": NUMBERS["target"]})
    first, second = (w for w in model.domain_head.trainable_weights if "kernel" in w.path)
    assert model.domain_head.output_shape == (None, 2)
    assert np.abs(first.numpy() - second.numpy()).max() > 0.01


def test_a_model_exports_its_classifier(tmp_path):
    model = fitted(DANN(OwnModel("dict"), num_classes=3), NAMED)
    model.export(tmp_path / "exported", verbose=False)
    artifact = tf.saved_model.load(str(tmp_path / "exported"))
    found = artifact.serve(NAMED["target"])
    np.testing.assert_allclose(found, logits_of(model, NAMED), rtol=1e-5, atol=1e-6)


def test_faster_heads_need_the_variables():
    model = DANN(OwnModel(), num_classes=3)
    with pytest.raises(ValueError, match=r"call it first, `model\(inputs\[:1\]\)`"):
        faster_heads(model, keras.optimizers.SGD())
    model(NUMBERS["source"])
    model.compile(faster_heads(model, keras.optimizers.SGD()))
    model.fit(NUMBERS, LABELS, verbose=0)


def test_a_head_of_several_outputs_is_refused():
    entry = keras.Input((6,))
    outputs = [layers.Dense(3)(entry), layers.Dense(2)(entry)]
    heads = keras.Model(entry, outputs), keras.Model(entry, dict(zip("ab", outputs, strict=True)))
    backbones = layers.Dense(6), keras.Sequential([keras.Input((4,)), layers.Dense(6)])
    for backbone, head in itertools.product(backbones, heads):
        with pytest.raises(ValueError, match="one tensor of logits. Received: 2 outputs"):
            DANN(backbone, label_head=head, num_classes=3)


def test_what_pairs_are_not_for_says_what_to_write():
    model = DANN(keras.Sequential([keras.Input((4,)), layers.Dense(6)]), num_classes=3)
    model.compile("sgd")
    pairs = dann.data.pair((NUMBERS["source"], LABELS), NUMBERS["target"], 6)
    with pytest.raises(ValueError, match=r"`predict\(inputs\)`. Received: pairs of both"):
        model.predict(pairs)
    with pytest.raises(ValueError, match=r"`pair\(\(inputs, labels, weights\), target\)`"):
        model.fit(pairs, sample_weight=np.ones(12))


@pytest.mark.parametrize("late", [False, True])
def test_inputs_with_the_names_of_the_domains_are_refused(late):
    class Both(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, inputs):
            return self.dense(inputs["source"] + inputs["target"])

    entries = {name: keras.Input((3,), name=name) for name in ("source", "target")}
    early = keras.Model(entries, layers.Dense(2)(layers.Add()(list(entries.values()))))
    one = {name: np.ones((4, 3), "float32") for name in entries}
    with pytest.raises(ValueError, match=r"names. Received: inputs \['source', 'target'\]"):
        DANN(Both() if late else early, num_classes=2)({"source": one, "target": one})
