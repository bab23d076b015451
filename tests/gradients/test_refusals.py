"""What both functions refuse, each with a way out."""

import pytest
from keras import ops
from support.differentiate import BACKEND, tensor

from dann.gradients import binary_sign, reverse_gradient

each_function = pytest.mark.parametrize("function", [reverse_gradient, binary_sign])


@each_function
def test_an_unknown_way_is_refused(function):
    with pytest.raises(ValueError, match="`way` must be .*'stop_gradient'.*Received: way='ste'"):
        function(tensor([1.0], "float32"), way="ste")


@each_function
def test_integers_are_refused(function):
    with pytest.raises(TypeError, match="Expected a floating-point tensor.*Received: dtype=int32"):
        function(ops.array([1, 2], "int32"))


@pytest.mark.skipif(BACKEND == "tensorflow", reason="works there")
@each_function
def test_op_override_names_the_alternatives_on_other_backends(function):
    with pytest.raises(ImportError, match="use `way='override'` or `way='stop_gradient'`"):
        function(tensor([1.0], "float32"), way="op_override")
