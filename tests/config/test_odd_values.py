"""Values that nobody means, given to the keys of the training config."""

import pytest
from support.odd_values import VALUES, keys_of, outcome

SMALL = "network.backbone.filters=[2] network.backbone.units=3 network.domain_head.hidden_units=[2]"
METHODS = "dann cdan mdd pada wdgrl fdal sdat els mcd"
# Each with the group whose keys are given odd values.
WHOLE = [
    ("callbacks", "callbacks=diagnostics"),
    ("optimizer", "optimizer=sgd"),
    ("optimizer", "optimizer=adam"),
    ("optimizer", "optimizer=bop network=binary_mlp network.backbone.hidden_units=[8]"),
    *(("schedule", f"schedule={name} {SMALL}") for name in ("ganin", "constant", "warm_start")),
    *(("method", f"method={name} {SMALL}") for name in METHODS.split()),
    *(("regularizers", f"regularizer={name} {SMALL}") for name in ("mcc", "vat", "entropy")),
    ("augmentation", f"augmentation=affine_zoom_blend {SMALL}"),
    ("augmentation", f"augmentation=affine_zoom_invert {SMALL}"),
    ("network", "network=cnn"),
    ("network", "network=mlp"),
    ("network", "network=binary_mlp network.backbone.hidden_units=[8]"),
]
SAMPLE = {
    "callbacks.metrics.filename=0": "callbacks.metrics.filename must be a path; quote numbers",
    "callbacks.metrics=0": "callbacks.metrics must name a callback as `_target_`. Received: 0",
    "callbacks.metrics=a:b": "callbacks.metrics must name a callback",
    "callbacks.metrics._target_=true": "Received: True of callbacks.metrics._target_",
    "callbacks.tensorboard.write_graph=a:b": "`callbacks.tensorboard.write_graph` must be True or",
    f"callbacks.metrics.filename={'x' * 300}": "callbacks.metrics.filename must be a path: File n",
    "callbacks.tensorboard.log_dir=null": "callbacks.tensorboard.log_dir must be a path",
    "optimizer.momentum=nan": "a finite number. Received: optimizer.momentum=nan",
    "optimizer.momentum=true": "must be a finite number. Received: optimizer.momentum=True",
    "optimizer.learning_rate.total_steps=inf": "`optimizer.learning_rate.total_steps` must be a f",
    "schedule.gamma=a:b": "must be a finite number. Received: schedule.gamma='a:b'",
    "network.domain_head=0": "network.domain_head must name a partial function",
    "network.backbone.units=-1": "network.backbone: ",
    "network.backbone.units=1000000000000": "network.backbone: ",
    "method._target_=dann.layers.BinaryDense": "method must name a method as `_target_`",
}


@pytest.mark.parametrize("override", SAMPLE)
def test_a_value_that_nobody_means_is_refused_by_the_name_of_its_key(override, tmp_path):
    key, _, value = override.partition("=")
    end, message = outcome("callbacks=default", key, value, tmp_path)
    assert end == "refused"
    assert SAMPLE[override] in message


@pytest.mark.slow
@pytest.mark.parametrize(("group", "choices"), WHOLE)
def test_each_key_with_each_odd_value_trains_or_is_refused(group, choices, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = keys_of(choices, group)
    found = {
        f"{key}={value}": outcome(choices, key, value, tmp_path / "run")
        for key in keys
        for value in VALUES
    }
    ends = [end for end, _ in found.values()]
    assert ends.count("refused") > len(ends) / 2  # the values are odd
    assert {given: told for given, told in found.items() if told[0] == "traceback"} == {}
    unnamed = {
        given: told
        for given, (end, told) in found.items()
        if end == "refused" and group not in told
    }
    assert unnamed == {}
