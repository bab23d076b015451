"""Skip marks for features that torch lacks; see docs/running.md."""

import functools

import keras
import pytest

_skip = functools.partial(pytest.mark.skipif, keras.backend.backend() == "torch")
several_steps = _skip(reason="Keras refuses `steps_per_execution` above 1")
compiled = _skip(reason="no function is compiled: every call runs the model")
compiled_schedules = _skip(reason="`torch.compile` takes the strength of the next step")
seeded_dropout = _skip(reason="Keras draws dropout from torch's own generator")
unknown_domain_nan = _skip(reason="torch raises its own error")
