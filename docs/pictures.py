"""Draws the pictures of docs/methods.md: the methods on one problem in two dimensions.

python docs/pictures.py                  all of them, docs/images/methods_*.png
python docs/pictures.py discriminators   one: discriminators, critics or stages

The problem is `nearer_classes` of tests/support/shifted_classes.py. Every panel shows one training
with seed 0, a linear backbone, small heads, Adam at .01 and the method's defaults; no panel was
picked among several.
"""

import functools
import pathlib
import sys

import keras
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import dann

SEED, SIZE, BATCH_SIZE = 0, 512, 64
CENTERS = np.array([[-1.0, 0.0], [1.0, 0.0]])
SHIFT = np.array([0.9, 1.2])
IMAGES = pathlib.Path(__file__).parent / "images"
MARKERS = "ox"
LIMITS = (-2.2, 3.2, -1.1, 2.4)


def domain(rng, shift):
    """Two normal classes of deviation .3, and their labels."""
    labels = rng.permutation(SIZE) % 2
    noise = rng.normal(scale=0.3, size=(SIZE, 2))
    return (CENTERS[labels] + shift + noise).astype("float32"), labels


def network(method, hidden=(), **kwargs):
    """A method on a linear backbone of two features."""
    inputs = keras.Input((2,))
    backbone = keras.Model(inputs, keras.layers.Dense(2, use_bias=False)(inputs))
    return method(backbone, label_head=dann.networks.label_head(2, 2, hidden), **kwargs)


def discriminator(length=2):
    """A discriminator of one hidden layer."""
    return dann.networks.domain_head(length, hidden_units=(16,))


def second_head(name):
    """A second label head, or a critic, of one hidden layer."""
    return dann.networks.label_head(2, 2, hidden_units=(16,), name=name)


def train(model, source, labels, target, steps=600, **parts):
    """Trains a model on random batches and returns it."""
    rng = np.random.default_rng(SEED)
    of_source = rng.integers(len(source), size=steps * BATCH_SIZE)
    of_target = rng.integers(len(target), size=steps * BATCH_SIZE)
    pair = {"source": source[of_source], "target": target[of_target]}
    pair.update({name: values[of_source] for name, values in parts.items()})
    optimizer = keras.optimizers.Adam(0.01, beta_1=0.5)
    model.compile(optimizer, steps_per_execution=20)
    model.fit(pair, labels[of_source], batch_size=BATCH_SIZE, shuffle=False, verbose=0)
    return model


def standard(method, source, labels, target, steps=600, **kwargs):
    """A method with two classes in both domains."""
    return train(network(method, **kwargs), source, labels, target, steps)


def mdan(source, labels, target):
    """MDAN with the same classes beyond the target as a second source."""
    both = np.concatenate([source, (source + 2 * SHIFT).astype("float32")])
    of = np.repeat([0, 1], SIZE)
    model = network(dann.MDAN, domain_head=discriminator(), num_sources=2)
    return train(model, both, np.tile(labels, 2), target, source_domain=of)


def dirt_t(source, labels, target):
    """DIRT-T after a DANN that was trained too briefly."""
    first = standard(dann.DANN, source, labels, target, steps=60, domain_head=discriminator())
    return train(dann.DIRTT.from_model(first, radius=0.6, refresh_steps=50), source, labels, target)


def vada(source, labels, target):
    """DANN with the two regularizers of VADA."""
    joined = [dann.ConditionalEntropy(0.1), dann.VirtualAdversarial(0.1, radius=0.6, seed=SEED)]
    return standard(
        dann.DANN, source, labels, target, domain_head=discriminator(), regularizers=joined
    )


def figures():
    """The panels of each figure: titles, and functions from a problem to a trained model."""
    of = functools.partial

    def features(method, **kwargs):
        return of(standard, method, domain_head=discriminator(), **kwargs)

    return {
        "discriminators": {
            "DANN": features(dann.DANN),
            "ELS": features(dann.DANN, domain_label_smoothing=0.1, steps=1200),
            "CDAN": of(standard, dann.CDAN, domain_head=discriminator(4)),
            "MADA": features(dann.MADA),
            "PADA": features(dann.PADA),
            "MDAN, two sources": mdan,
        },
        "critics": {
            "MDD": of(standard, dann.MDD, adversarial_head=second_head("a")),
            "MCD": of(standard, dann.MCD, hidden=(16,), second_head=second_head("a")),
            "DALN": of(standard, dann.DALN, hidden=(16,)),
            "f-DAL, 400 steps": of(standard, dann.FDAL, critic=second_head("a"), steps=400),
            "WDGRL": features(dann.WDGRL, seed=SEED, steps=1500),
        },
        "stages": {
            "SDAT (DANN)": features(dann.DANN, task_radius=0.05),
            "DANN with MCC": features(dann.DANN, regularizers=[dann.MCC()]),
            "DANN with entropy and VAT": vada,
            "DIRT-T after a short DANN": dirt_t,
        },
    }


def logit_of_second(model, points):
    """The logit of class 1 less that of class 0 at each point."""
    logits = keras.ops.convert_to_numpy(model(points.astype("float32")))
    return logits[:, 1] - logits[:, 0]


def draw(axes, title, model, before, source, target, labels):
    """Draws a model's regions, both boundaries and the examples; returns the target accuracy."""
    grid = np.stack(np.meshgrid(np.linspace(*LIMITS[:2], 200), np.linspace(*LIMITS[2:], 200)), -1)
    views = [logit_of_second(one, grid.reshape(-1, 2)).reshape(200, 200) for one in (before, model)]
    axes.contourf(*grid.T.swapaxes(1, 2), views[1] > 0, levels=[0.5, 1.5], colors=["0.9"])
    axes.contour(*grid.T.swapaxes(1, 2), views[0], levels=[0], colors="0.4", linestyles="--")
    axes.contour(*grid.T.swapaxes(1, 2), views[1], levels=[0], colors="black", linewidths=2)
    for k, marker in enumerate(MARKERS):
        some = {"s": 12, "linewidths": 0.7, "marker": marker}
        face = {"facecolors": "none"} if marker == "o" else {}
        for (inputs, of), color in ((source, "0.55"), ((target, labels), "#c0501b")):
            color = {"edgecolors": color} if marker == "o" else {"color": color}
            axes.scatter(*inputs[of == k][:60].T, **some, **face, **color)
    right = np.mean((logit_of_second(model, target) > 0) == labels)
    axes.set(title=f"{title}: {right:.0%}", xlim=LIMITS[:2], ylim=LIMITS[2:], aspect="equal")
    axes.set(xlabel="$x_1$", ylabel="$x_2$")
    return right


def save(name, panels, problem, before):
    """Trains the models of the panels and writes the figure."""
    source, labels, target, target_labels = problem
    columns = 2 if len(panels) == 4 else 3
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.7 * rows + 0.7), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for title, make in panels.items():
        keras.utils.set_random_seed(SEED)
        model = make(source, labels, target)
        at = next(axes)
        right = draw(at, title, model, before, (source, labels), target, target_labels)
        print(f"{name}: {title}, target accuracy {right:.3f}", flush=True)
    for at in axes:
        at.axis("off")
    figure.legend(handles=legend(), loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(IMAGES / f"methods_{name}.png", dpi=90)


def legend():
    """Explains marks and lines."""
    dots = {"linestyle": "none", "markersize": 5, "markerfacecolor": "none"}
    return [
        *(
            Line2D([], [], marker=m, color=c, label=f"{domain}, class {k}", **dots)
            for domain, c in (("source", "0.55"), ("target", "#c0501b"))
            for k, m in enumerate(MARKERS)
        ),
        Line2D([], [], color="0.4", linestyle="--", label="boundary of source only"),
        Line2D([], [], color="black", linewidth=2, label="boundary of the method"),
        Patch(color="0.9", label="predicted to be class 1"),
    ]


def main():
    """Draws the figures that the command names."""
    rng = np.random.default_rng(SEED)
    problem = *domain(rng, 0.0), *domain(rng, SHIFT)
    keras.utils.set_random_seed(SEED)
    before = standard(dann.SourceOnly, *problem[:3])
    for name, panels in figures().items():
        if name in sys.argv[1:] or not sys.argv[1:]:
            save(name, panels, problem, before)


if __name__ == "__main__":
    main()
