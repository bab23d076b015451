"""Backward passes that are not the derivative, as plain functions on tensors."""

import keras

from dann.gradients import estimators as estimators
from dann.gradients.override import override_gradient as override_gradient
from dann.gradients.reversal import reverse_gradient as reverse_gradient
from dann.gradients.sign import binary_sign as binary_sign
from dann.gradients.stop_gradient import straight_through as straight_through
from dann.gradients.stop_gradient import surrogate_gradient as surrogate_gradient

if keras.backend.backend() == "tensorflow":
    from dann.gradients.op_override import override_op_gradients as override_op_gradients
