"""The reversal certificate against NumPy, in every mode, on anyone's model."""

from unittest import mock

import keras
import numpy as np
import pytest
from keras import ops
from support import planted
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES
from support.pair import LABELS, PAIR, SOURCE, STRENGTH, TARGET

import dann
from dann.diagnostics import reversal_certificate
from dann.diagnostics.instruments import backward_pass
from dann.diagnostics.instruments.layer_calls import around_layers
from dann.gradients import reverse_gradient
from dann.layers import BinarySign, GradientReversal
from dann.schedules import Constant, GaninSchedule, StrengthSchedule, WarmStart

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="another backend has no tf.function"
)

PASSES = {dann.DANN: 2, planted.Forgotten: 2, planted.Twice: 3}
WAYS = ["stop_gradient"]
if keras.backend.backend() == "tensorflow":
    PASSES[planted.NaiveOverride] = 2
    WAYS.append("op_override")

DATA = PAIR, LABELS
METHODS = ["CDAN", "DALN", "FDAL", "MADA", "MCD", "MDAN", "MDD", "PADA", "WDGRL"]


def linear_dann(cls=dann.DANN, strength=STRENGTH, **kwargs):
    head = linear(4, 1, "domain_head")
    model = cls(**linear_parts(), domain_head=head, strength=strength, **kwargs)
    model.compile("sgd")
    return with_random_weights(model)


def domain_slopes(weights):
    """`dD/df` and `dD/dw` of the domain loss `D`, with `d = f w`; dBCE/dd = sigmoid - domain."""
    a, _, w = weights
    features = np.concatenate([SOURCE, TARGET]) @ a
    slope = (1 / (1 + np.exp(-features @ w)) - np.repeat([[0.0], [1.0]], 5, axis=0)) / 10
    return slope @ w.T, features.T @ slope


@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_reversal_is_certified_to_the_strength_as_numpy_has_it(mode):
    model = linear_dann()
    of_features, of_head = domain_slopes(weights_of(model))
    found = reversal_certificate(model, DATA, mode=mode)
    assert found["reversal/state"] == "alive"
    for name in ("reversal", "reversal/reversal"):
        assert found[f"{name}/cosine"] == pytest.approx(-1, abs=1e-6)
        assert found[f"{name}/ratio"] == pytest.approx(STRENGTH, rel=1e-5)
    assert found["reversal/backbone_cosine"] == pytest.approx(-1, abs=1e-6)
    assert found["reversal/backbone_ratio"] == pytest.approx(STRENGTH, rel=1e-5)
    assert found["reversal/feature_norm"] == pytest.approx(np.linalg.norm(of_features), rel=1e-5)
    assert found["reversal/head_norm"] == pytest.approx(np.linalg.norm(of_head), rel=1e-5)
    assert found["reversal/head_error"] < 1e-6
    assert found["reversal/strength"] == pytest.approx(STRENGTH)
    assert found["reversal/calls"] == 1


def test_a_reloaded_model_gets_the_same_certificate(reloaded):
    model = linear_dann(strength=GaninSchedule(100))
    model.reversal.step.assign(30)
    again = reloaded(model)
    strength = 2 / (1 + np.exp(-10 * 0.3)) - 1
    for each in (model, again):
        found = reversal_certificate(each, DATA)
        assert found["reversal/state"] == "alive"
        assert found["reversal/ratio"] == pytest.approx(strength, rel=1e-5)
        assert found["reversal/strength"] == pytest.approx(strength, rel=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_certified(way):
    found = reversal_certificate(linear_dann(way=way), DATA)
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(STRENGTH, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_that_reverses_is_certified(method):
    kwargs = {"strength": 0.3}
    model = with_random_weights(getattr(dann, method)(**linear_parts(), **kwargs))
    model.compile("sgd")
    found = reversal_certificate(model, DATA, mode="eager")
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.3, rel=1e-4)
    assert found["reversal/head_error"] < 1e-5


def test_a_method_without_a_reversal_has_nothing_to_certify():
    model = dann.SourceOnly(**linear_parts())
    assert reversal_certificate(model, DATA) == {"reversal/state": "none"}


class Between(StrengthSchedule):
    """1 from step 500 until step 2000, and 0 otherwise."""

    def __call__(self, step):
        step = ops.cast(step, "float32")
        return ops.cast((step >= 500) & (step < 2000), "float32")

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    ("schedule", "trained", "counted", "state"),
    [
        (GaninSchedule(100), 0, 0, "not begun"),
        (Constant(0.0), 0, 0, "strength 0"),
        (Between(), 5, 5, "not begun"),
        (Between(), 600, 600, "alive"),
        (Between(), 2000, 2000, "strength 0"),
        (WarmStart(), 100, 0, "strength 0"),  # as of a reversal that gets no `training=True`
    ],
)
def test_a_schedule_is_judged_from_the_present_step_on(schedule, trained, counted, state):
    model = linear_dann(strength=schedule)
    model.optimizer.iterations.assign(trained)
    model.reversal.step.assign(counted)
    assert reversal_certificate(model, DATA, mode="eager")["reversal/state"] == state


def test_a_reversal_that_ignores_half_of_its_strength_is_found():
    class Halved(GradientReversal):
        def call(self, inputs, training=False):
            return reverse_gradient(inputs, 0.5 * ops.convert_to_tensor(self.strength))

    class WithHalved(planted.OtherWay):
        def turn(self, features, training, reversal):
            return halved(features, training=training)

    halved = Halved(STRENGTH)
    model = linear_dann(WithHalved)
    model.reversal = halved
    found = reversal_certificate(model, DATA, mode="eager")
    assert found["reversal/state"] == "wrong strength"
    assert found["reversal/ratio"] == pytest.approx(STRENGTH / 2, rel=1e-5)
    assert found["reversal/strength"] == pytest.approx(STRENGTH)


def test_a_double_reversal_shows_the_square_of_the_strength():
    found = reversal_certificate(linear_dann(planted.Twice), DATA, mode="eager")
    assert found["reversal/calls"] == 2
    assert found["reversal/cosine"] == pytest.approx(1)
    assert found["reversal/ratio"] == pytest.approx(STRENGTH**2, rel=1e-5)


def test_a_reversal_by_a_function_is_certified_by_differences():
    class ByFunction(planted.OtherWay):
        def turn(self, features, training, reversal):
            return reverse_gradient(features, 0.3)

    found = reversal_certificate(linear_dann(ByFunction), DATA, mode="eager")
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.3, rel=1e-2)


INPUTS = np.random.default_rng(5).normal(size=(16, 6)).astype("float32")


def own_model(turn, seed=0):
    keras.utils.set_random_seed(seed)
    return planted.OwnModel(turn)


@pytest.mark.parametrize("mode", MODES)
def test_a_function_in_a_model_of_two_heads_is_certified_by_the_head_behind_it(mode):
    """Of both heads together the sign of the differences would be that of the longer gradient."""
    model = own_model(lambda features, training: reverse_gradient(features, 0.5))
    found = reversal_certificate(model, INPUTS, mode=mode)
    assert found["reversal/state"] == "alive"
    assert found["reversal/cosine"] == pytest.approx(-1)
    assert found["reversal/ratio"] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("turn", "state"),
    [
        (lambda features, training: features, "forgotten"),
        (lambda features, training: ops.stop_gradient(features), "cut"),
        (
            lambda features, training: reverse_gradient(features, 1.0) if training else features,
            "alive",
        ),
    ],
)
def test_a_function_is_judged_as_it_is_in_training(turn, state):
    assert reversal_certificate(own_model(turn), INPUTS, mode="eager")["reversal/state"] == state


def test_differences_cannot_tell_if_only_a_part_is_reversed():
    class OneDomain(planted.OtherWay):
        def turn(self, features, training, reversal):
            source, target = ops.split(features, 2)
            return ops.concatenate([reverse_gradient(source, 1.0), target])

    found = reversal_certificate(linear_dann(OneDomain), DATA, mode="eager")
    assert found["reversal/state"] == "cannot tell"
    assert abs(found["reversal/cosine"]) < 0.99
    assert "reversal/head_error" not in found


def test_differences_cannot_tell_where_values_do_not_follow_gradients():
    function = BinarySign()  # its value stands still where its gradient does not
    found = reversal_certificate(function, INPUTS, mode="eager")
    assert found["reversal/state"] == "cannot tell"


def test_without_floating_inputs_or_reversals_the_state_is_cannot_tell():
    model = keras.Sequential([keras.layers.Embedding(5, 3)])
    found = reversal_certificate(model, np.array([[1, 2]]))
    assert found == {"reversal/state": "cannot tell"}


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize(("strength", "state"), [(-1.0, "forgotten"), (0.5, "alive")])
def test_a_function_is_certified_in_half_precision(policy, strength, state):
    keras.config.set_dtype_policy(policy)
    model = own_model(
        lambda features, training: (
            features if strength < 0 else reverse_gradient(features, strength)
        )
    )
    assert reversal_certificate(model, INPUTS, mode="eager")["reversal/state"] == state


def test_reversals_called_with_keyword_arguments_are_found():
    class ByName(planted.OwnModel):
        def call(self, inputs, training=None):
            features = self.features(inputs=inputs)
            return self.label(features), self.domain(self.turn(inputs=features))

    keras.utils.set_random_seed(0)
    model = ByName(GradientReversal(0.5, name="grl"))
    found = reversal_certificate(model, INPUTS, mode="eager")
    assert found["reversal/state"] == "alive"
    assert found["reversal/grl/ratio"] == pytest.approx(0.5)


@on_tensorflow
@pytest.mark.filterwarnings("ignore:`build")
def test_a_call_that_is_a_tf_function_is_certified_by_differences():
    import tensorflow as tf

    class Decorated(planted.OwnModel):
        @tf.function
        def call(self, inputs):
            return self.domain(self.turn(self.features(inputs)))

    keras.utils.set_random_seed(0)
    model = Decorated(GradientReversal(0.5))
    found = reversal_certificate(model, INPUTS, mode="eager")
    assert (found["reversal/state"], found["reversal/calls"]) == ("alive", 0)
    assert found["reversal/ratio"] == pytest.approx(0.5, rel=0.01)


class Named(keras.layers.Layer):
    """Passes on, under a name that tells another thing."""

    def call(self, inputs):
        return 1.0 * inputs


@pytest.mark.parametrize(
    "other", [keras.layers.Dropout(0.5, name="grl_dropout"), Named(name="grl_log")]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_an_identity_layer_next_to_a_reversal_is_no_fault(other, is_first):
    def both(features):
        layers = [other, GradientReversal(0.5)] if is_first else [GradientReversal(0.5), other]
        return layers[1](layers[0](features))

    found = reversal_certificate(two_heads(both), INPUTS[:, :3], mode="eager")
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.5)
    assert found["reversal/strength"] == pytest.approx(0.5)


def test_an_identity_layer_before_other_layers_and_a_reversal_is_no_fault():
    layers = [Named(name="grl_log"), keras.layers.Dense(3), GradientReversal(0.5)]

    def in_turn(features):
        for layer in layers:
            features = layer(features)
        return features

    found = reversal_certificate(two_heads(in_turn), INPUTS[:, :3], mode="eager")
    assert found["reversal/grl_log/cosine"] == pytest.approx(1)
    assert found["reversal/state"] == "alive"


def test_an_unreversed_output_beside_a_saturated_one_proves_nothing():
    class Saturated(planted.OwnModel):
        def call(self, inputs):
            features = self.features(inputs)
            domain = self.domain(reverse_gradient(features, 1.0))
            return self.label(features), keras.ops.sigmoid(1e4 + domain)

    found = reversal_certificate(Saturated(None), INPUTS, mode="eager")
    assert found["reversal/state"] == "cannot tell"


def test_a_reversal_behind_the_discriminator_reverses_it_too():
    found = reversal_certificate(linear_dann(planted.BehindHead), DATA, mode="eager")
    assert found["reversal/cosine"] == pytest.approx(-1)
    assert found["reversal/head_error"] == pytest.approx(1 + STRENGTH, rel=1e-5)
    assert found["reversal/state"] == "discriminator reversed"


def test_a_layer_between_backbone_and_reversal_is_no_fault():
    class Bottleneck(planted.DANN):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.bottleneck = keras.layers.Dense(self.backbone.output_shape[-1])
            self.bottleneck.build(self.backbone.output_shape)

        def adversary(self, features, logits, training, reversal):
            narrow = {name: self.bottleneck(part) for name, part in features.items()}
            return super().adversary(narrow, logits, training, reversal)

    found = reversal_certificate(linear_dann(Bottleneck), DATA, mode="eager")
    assert found["reversal/head_error"] == pytest.approx(0, abs=1e-6)
    assert found["reversal/state"] == "alive"


def test_a_batch_without_examples_is_refused():
    with pytest.raises(ValueError, match=r"at least one example.*Received: .* \(0, 6\)"):
        reversal_certificate(own_model(lambda features, training: features), INPUTS[:0])


@pytest.mark.parametrize(("fault", "most"), PASSES.items())
def test_three_backward_passes_are_enough(fault, most, monkeypatch):
    counted = mock.Mock(wraps=backward_pass.gradients)
    monkeypatch.setattr(backward_pass, "gradients", counted)
    reversal_certificate(linear_dann(fault), DATA)
    assert 0 < counted.call_count <= most


def no_watch(around):
    raise AssertionError("a watch")


def test_our_own_reversal_is_varied_without_a_watch_of_the_layers(monkeypatch):
    monkeypatch.setattr(backward_pass, "around_layers", no_watch)
    for method in (planted.DANN, planted.Twice, planted.BehindHead):
        found = reversal_certificate(linear_dann(method), DATA, mode="eager")
        assert found["reversal/ratio"] > 0


def test_a_method_that_calls_its_reversal_past_the_seam_is_watched(monkeypatch):
    class Past(planted.OtherWay):
        def turn(self, features, training, reversal):
            return self.reversal(features, training=training)

    given, past = (
        reversal_certificate(linear_dann(method), DATA, mode="eager")
        for method in (planted.DANN, Past)
    )
    assert past == given
    monkeypatch.setattr(backward_pass, "around_layers", no_watch)
    with pytest.raises(AssertionError, match="a watch"):
        reversal_certificate(linear_dann(Past), DATA, mode="eager")


def test_a_reversal_within_a_network_of_our_own_model_is_found():
    def head(*first):
        return keras.Sequential([keras.Input((2,)), *first, keras.layers.Dense(1)])

    model = planted.dann(head=head(GradientReversal(0.5, name="inner")))
    found = reversal_certificate(model, planted.batch(0, 32), mode="eager")
    assert found["reversal/state"] == "applied twice"
    assert found["reversal/ratio"] == pytest.approx(0.5 * planted.STRENGTH, rel=1e-4)
    assert found["reversal/inner/cosine"] == pytest.approx(-1)


class Turning(keras.layers.Layer):
    """A reversal under a name that does not tell."""

    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs):
        return ops.stop_gradient(inputs) + self.factor * (inputs - ops.stop_gradient(inputs))


def two_heads(*reversals):
    """Anyone's model: a label head, and a discriminator behind each reversal."""
    inputs = keras.Input((3,))
    features = keras.layers.Dense(4, name="features")(inputs)
    heads = [keras.layers.Dense(2, name="label")(features)]
    for index, reversal in enumerate(reversals):
        heads.append(keras.layers.Dense(1, name=f"domain_{index}")(reversal(features)))
    return with_random_weights(keras.Model(inputs, heads))


@pytest.mark.parametrize("mode", MODES)
def test_a_reversal_in_any_model_is_found_by_its_behaviour(mode):
    found = reversal_certificate(two_heads(Turning(-0.4, name="odd")), SOURCE, mode=mode)
    assert found["reversal/state"] == "alive"
    assert found["reversal/odd/cosine"] == pytest.approx(-1, abs=1e-6)
    assert found["reversal/odd/ratio"] == pytest.approx(0.4, rel=1e-5)
    assert found["reversal/head_error"] < 1e-6
    assert found["reversal/head_norm"] > 0


def test_a_reversal_deep_within_others_is_found():
    inner = keras.Sequential([keras.Input((4,)), GradientReversal(0.6, name="deep")], name="inner")
    found = reversal_certificate(two_heads(inner), SOURCE, mode="eager")
    assert found["reversal/deep/ratio"] == pytest.approx(0.6, rel=1e-5)
    assert found["reversal/state"] == "alive"


def test_one_dead_reversal_of_two_is_named():
    model = two_heads(GradientReversal(name="one"), Turning(0.5, name="grl"))
    found = reversal_certificate(model, SOURCE, mode="eager")
    assert found["reversal/one/cosine"] == pytest.approx(-1)
    assert found["reversal/grl/cosine"] == pytest.approx(1)
    assert found["reversal/state"] == "wrong sign"


@pytest.mark.parametrize(
    ("layer", "state"),
    [
        (keras.layers.Lambda(lambda features: 1.0 * features, name="grl"), "wrong sign"),
        (Turning(-0.0, name="grl"), "strength 0"),
    ],
)
def test_a_layer_with_the_name_of_a_reversal_is_judged_by_its_behaviour(layer, state):
    assert reversal_certificate(two_heads(layer), SOURCE, mode="eager")["reversal/state"] == state


def test_a_model_without_a_reversal_is_called_forgotten():
    found = reversal_certificate(two_heads(), SOURCE, mode="eager")
    assert (found["reversal/state"], found["reversal/calls"]) == ("forgotten", 0)


@pytest.mark.parametrize(("factor", "state"), [(-0.4, "alive"), (1.0, "forgotten"), (0.0, "cut")])
def test_a_plain_function_is_certified_by_differences(factor, state):
    def function(x):
        return ops.sin(ops.stop_gradient(x) + factor * (x - ops.stop_gradient(x)))

    found = reversal_certificate(function, SOURCE.astype("float32"), mode="eager")
    assert found["reversal/state"] == state
    if factor:
        assert found["reversal/ratio"] == pytest.approx(abs(factor), rel=1e-2)
        assert found["reversal/cosine"] == pytest.approx(np.sign(factor))


def test_a_forgotten_reversal_is_recognized_even_if_differences_give_a_wrong_length():
    """`exp` bends within a difference of .001 times the features' norm, as a sure loss does."""

    def function(x):
        return ops.exp(500 * (x - SOURCE.max()))

    found = reversal_certificate(function, SOURCE.astype("float32"), mode="eager")
    assert abs(found["reversal/ratio"] - 1) > 0.1
    assert found["reversal/cosine"] == pytest.approx(1)
    assert found["reversal/state"] == "forgotten"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("fault", [dann.DANN, planted.Forgotten])
def test_gradients_that_are_not_finite_give_the_state_not_finite(fault, value):
    model = linear_dann(fault)
    weight = model.backbone.trainable_variables[0]
    weight.assign(np.full(weight.shape, value))
    found = reversal_certificate(model, DATA, mode="eager")
    assert found["reversal/state"] == "not finite"
    assert not np.isfinite(found["reversal/backbone_cosine"])


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_gradients_too_small_for_half_precision_are_certified(mode):
    """Those of 512 examples and a weak discriminator are about 1e-7, of 6e-8 at least."""
    keras.config.set_dtype_policy("mixed_float16")
    model = planted.dann(strength=0.3)
    for weight in model.domain_head.trainable_variables:
        weight.assign(0.01 * weight)
    found = reversal_certificate(model, planted.batch(0), mode=mode)
    assert found["reversal/feature_norm"] < 1e-5
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.3, rel=2e-3)
    assert found["reversal/backbone_ratio"] == pytest.approx(0.3, rel=2e-3)


def test_an_overflow_under_the_loss_scale_is_measured_with_a_smaller_scale():
    keras.config.set_dtype_policy("mixed_float16")
    model = two_heads(GradientReversal(0.5))
    weight = model.get_layer("domain_0").kernel
    weight.assign(20 * weight)  # 2^16 times that is above 65504
    found = reversal_certificate(model, SOURCE.astype("float32"), mode="eager")
    assert found["reversal/state"] == "alive"
    assert found["reversal/ratio"] == pytest.approx(0.5, rel=2e-3)
    assert found["reversal/feature_norm"] > 20


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="`mode`.*'xla'.*mode='lazy'"):
        reversal_certificate(two_heads(), SOURCE, mode="lazy")


def test_a_wrapper_of_keras_by_another_library_stays_in_place_and_in_use(monkeypatch):
    calls, call = [], keras.Operation.__call__

    def wrapper(self, *args, **kwargs):
        calls.append(self)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(keras.Operation, "__call__", wrapper)
    layer = keras.layers.Dense(1)
    with around_layers(lambda layer, call, args, kwargs: call(*args, **kwargs)):
        layer(np.ones((1, 1), "float32"))
    assert calls[0] is layer
    assert keras.Operation.__call__ is wrapper
