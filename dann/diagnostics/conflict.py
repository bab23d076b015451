"""How the label loss and the reversed domain loss pull at the shared backbone."""

from typing import Any

from keras import ops

from dann.adaptation import AdversarialModel
from dann.adaptation.smooth_task import frozen
from dann.autodiff import gradients
from dann.diagnostics.catalogue import DIAGNOSTICS, REVERSING
from dann.diagnostics.healthy_ranges import HealthyRange
from dann.diagnostics.instruments.layers import leaves
from dann.diagnostics.instruments.losses import (
    check_adversarial,
    features_of,
    loss_terms,
    trains_backbone,
)
from dann.diagnostics.instruments.modes import as_tensors, in_mode, mode_of
from dann.diagnostics.instruments.vectors import cosine, length_ratio, norm, to_numpy


@DIAGNOSTICS.register(
    "conflict",
    models=REVERSING,
    quick=True,
    like_a_step=True,
    order=60,
    healthy=(
        HealthyRange(
            "conflict/ratio",
            "Weight of the adversary",
            "Length of the reversed domain gradient on the backbone, divided by the label loss's. "
            "Far below 1 the adversary hardly counts, far above the labels hardly count.",
            low=0.1,
            high=100,
        ),
        HealthyRange(
            "conflict/cosine",
            "Conflict of the two gradients",
            "Cosine of both gradients on the backbone. Somewhat negative is usual; near -1 they "
            "cancel.",
            low=-0.9,
            high=1.0,
        ),
    ),
)
def gradient_conflict(model: Any, data: Any, *, mode: str | None = None) -> dict[str, float]:
    """Compares the gradients of the label loss and of the reversed domain loss on the backbone.

    It compares them over the whole backbone, for each layer, and for each domain's part of the
    domain loss. `docs/diagnostics.md` lists the measurements with their formulas and healthy
    values.

    If a gradient is all zeros, its cosines and ratios are 0. The diagnostic takes 3 backward passes
    in training. The model does not change.

    The arguments are those of every diagnostic; see `dann.diagnostics.catalogue`.

    Raises:
        ValueError: If the model is not compiled, has no reversal, or no trainable backbone.

    Reference:
        - [Du et al., 2018](https://arxiv.org/abs/1812.02224), section 3, for the cosine;
          [Yu et al., 2020](https://arxiv.org/abs/2001.06782), definition 1, for the conflict.
    """
    check_adversarial(model)
    weights = list(model.backbone.trainable_variables)
    if model.reversal is None or not weights:
        raise ValueError(
            "A conflict needs two losses that train the backbone. Received: "
            f"{'no reversal' if model.reversal is None else 'a backbone that is not trainable'}"
        )
    found = _backbone_gradients(model, as_tensors(data), weights, mode or mode_of(model))
    measured = _compared(found, "conflict/{}", "conflict/{}/{}")
    for index, name in enumerate(("source", "target")):
        measured[f"conflict/{name}/norm"] = norm(found[1 + index])
    place = {id(weight): i for i, weight in enumerate(weights)}
    for name, layer in leaves(model.backbone).items():
        own = [place[id(w)] for w in layer.trainable_variables if id(w) in place]
        if own:
            parts = [[of_all[i] for i in own] for of_all in found]
            measured |= _compared(parts, f"conflict/{name}/{{}}", f"conflict/{name}/{{}}_{{}}")
    return measured


def _backbone_gradients(model: AdversarialModel, data, weights, mode):
    """Returns gradients of the label loss, and of the adversarial loss through each domain."""
    training = trains_backbone(model)

    def terms(values, blocked):
        with frozen(model, list(zip(weights, values, strict=True))):
            features = features_of(model, data[0], training)
            features = {k: ops.stop_gradient(f) if k in blocked else f for k, f in features.items()}
            return loss_terms(model, data, features, training)

    def all_three(*values):
        label = gradients(lambda *v: terms(v, ())[0], list(values))
        # A labelled target belongs to the target's domain.
        source = gradients(lambda *v: terms(v, ("target", "target_labelled"))[1], list(values))
        target = gradients(lambda *v: terms(v, ("source",))[1], list(values))
        return [*label, *source, *target]

    found = in_mode(all_three, mode)(*(ops.convert_to_tensor(w.value) for w in weights))
    count = len(weights)
    arrays = [to_numpy(gradient) for gradient in found]
    return arrays[:count], arrays[count : 2 * count], arrays[2 * count :]


def _compared(parts, name, of_domain):
    label, source, target = parts
    domain = [a + b for a, b in zip(source, target, strict=True)]
    return {
        name.format("label_norm"): norm(label),
        name.format("domain_norm"): norm(domain),
        name.format("ratio"): length_ratio(domain, label),
        name.format("cosine"): cosine(label, domain),
        of_domain.format("source", "cosine"): cosine(label, source),
        of_domain.format("target", "cosine"): cosine(label, target),
    }
