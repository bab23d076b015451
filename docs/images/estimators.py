"""Draws `estimators.png`: the forward value and the gradient of each estimator.

python docs/images/estimators.py
"""

import pathlib

import keras
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dann.autodiff import gradients
from dann.gradients import binary_sign
from dann.gradients.estimators import MagnitudeAware
from dann.gradients.estimators.estimator import ESTIMATORS

SHARPNESS = {"ede": (0.001, 1, 3), "reste": (1, 2, 3)}
STYLES = ("--", "-.", ":")


def draw(axes, inputs, estimator, sharpness=None, style="--", label=None):
    """Draws the value as a thick gray line and the gradient as a broken black line."""

    def function(inputs):
        return binary_sign(inputs, estimator=estimator, sharpness=sharpness)

    gradient = gradients(function, [inputs])[0]
    value = np.array(keras.ops.convert_to_numpy(function(inputs)))
    value[1:][np.diff(value) > 0.1] = np.nan  # no line along a jump
    axes.plot(inputs, value, color="0.7", linewidth=3, zorder=1)
    gradient = keras.ops.convert_to_numpy(gradient)
    axes.plot(inputs, gradient, "k", linestyle=style, label=label)


def main():
    """Draws one panel per estimator."""
    inputs = np.linspace(-2, 2, 801).astype("float32")
    figure = Figure(figsize=(4.8, 7.2), layout="constrained")
    panels = figure.subplots(len(ESTIMATORS) // 2, 2, sharex=True, sharey=True)
    for axes, name in zip(panels.flat, sorted(ESTIMATORS), strict=True):
        if name in SHARPNESS:
            for style, sharpness in zip(STYLES, SHARPNESS[name], strict=True):
                draw(axes, inputs, name, sharpness, style, f"sharpness {sharpness:g}")
            axes.legend(fontsize=7, loc="upper left", frameon=False, borderpad=0, handlelength=1.8)
        else:
            draw(axes, inputs, MagnitudeAware([]) if name == "magnitude_aware" else name)
        axes.set_title(name, fontsize=9)
        axes.grid(color="0.9")
    entries = [Line2D([], [], color="0.7", linewidth=3), Line2D([], [], color="k", linestyle="--")]
    names = "value (stochastic: at inference)", "gradient"
    figure.legend(entries, names, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("x", fontsize=9)
    panels[0, 0].set(ylim=(-1.4, 5.3), yticks=(0, 2, 4))
    figure.savefig(pathlib.Path(__file__).with_suffix(".png"), dpi=160)


if __name__ == "__main__":
    main()
