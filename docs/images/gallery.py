"""Draws the pictures of docs/gallery.md and of the home page, and prints accuracies.

python docs/images/gallery.py <raw data> <runs> [name of a function that draws ...]

`<raw data>` contains `emoji/`, `usps/` and `mnist/`. `<runs>` contains the runs `digits_dann` (the
demo) and `usps_dann` (the command on the page), with `compare=false`, and `digits_source_only` and
`usps_source_only`, with `method=source_only` too. `arms` requires the extra `seglearn`.
"""

import functools
import pathlib
import sys

import keras
import numpy as np
import pandas
from matplotlib.figure import Figure

import dann
from dann.training.preparation import start
from dann.training.run_figures import compute_panel, save_features, save_samples

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT))
FOLDER = pathlib.Path(__file__).parent
RIGHT, WRONG = "#1b7837", "#b2182b"
# A mirror turns x of the acceleration (a vector), and y and z of the rotation (a pseudovector).
MIRROR = -1, 1, 1, 1, -1, -1
COUNT = 6


def draw_predictions(name, domains, predicted, titles, class_names=None):
    """Draws source images, and target images with their classes and the predictions of each method.

    Args:
        name: Name of the figure.
        domains: The data.
        predicted: Predicted classes of the target's test set by the name of the method. Can be
            empty.
        titles: Names of the source and of the target.
        class_names: Short names of the classes. Defaults to `None`: their numbers.
    """
    images, classes = domains.target_test
    rows = np.linspace(0, len(images) - 1, COUNT).astype(int)
    sources = domains.source_train[0]
    examples = sources[np.linspace(0, len(sources) - 1, COUNT).astype(int)], images[rows]
    lines = len(predicted) + bool(class_names)
    inches = 2.0 + 0.24 * lines
    bottom = (0.1 + 0.24 * lines) / inches
    figure = Figure(figsize=(4.8, inches), dpi=200)
    figure.subplots_adjust(left=0.21, right=0.99, top=0.9, bottom=bottom, hspace=0.4, wspace=0.1)
    cells = figure.subplots(2, COUNT)
    for axes_row, pictures, domain, title in zip(
        cells, examples, ("source", "target"), titles, strict=True
    ):
        axes_row[0].set_title(f"{domain}: {title}", loc="left", fontsize=10)
        for axes, picture in zip(axes_row, pictures, strict=True):
            axes.imshow(picture.squeeze(), cmap="gray")
            axes.axis("off")
    rows_of_text = ({"true class": classes} if class_names else {}) | predicted
    for line, (method, numbers) in enumerate(rows_of_text.items()):
        if method in predicted:
            print(f"{name}, {method}: target accuracy {np.mean(numbers == classes):.1%} (seed 0)")
        height = bottom - (0.16 + 0.24 * line) / inches
        figure.text(0.2, height, method, size=10, ha="right", va="center")
        for axes, row in zip(cells[1], rows, strict=True):
            is_right = numbers[row] == classes[row]
            mark, color = (" ✓", RIGHT) if is_right else (" ✗", WRONG)
            text, size = f"{numbers[row]}{mark}", 11
            if class_names:
                text, size = class_names[numbers[row]], 8
            if method == "true class":
                color = "black"
            center = axes.get_position().x0 + axes.get_position().width / 2
            figure.text(center, height, text, color=color, ha="center", va="center", size=size)
    figure.savefig(FOLDER / f"gallery-{name}.png")


def read_predictions(run):
    """Returns the classes that a run predicts for the target's test set, in its order."""
    table = pandas.read_csv(run / "predictions.csv")
    return table["class"][table["split"] == "test"].to_numpy()


def features(data, runs):
    """Draws samples of the demo, and its features without and with DANN, for other pages."""
    domains = dann.data.digits_to_photos(str(runs / "prepared"))
    save_samples(domains, FOLDER / "digits_samples.png")
    for name, title in (("source_only", "source only"), ("dann", "DANN")):
        model = keras.saving.load_model(runs / f"digits_{name}/checkpoints/last.keras")
        accuracy = np.mean(read_predictions(runs / f"digits_{name}") == domains.target_test[1])
        panel = compute_panel(f"{title}, seed 0: target accuracy {accuracy:.0%}", model, domains)
        path = FOLDER / f"features-{name.replace('_', '-')}.png"
        save_features([panel], domains, 0, path)


def usps(data, runs):
    """Draws handwritten digits of two collections, and predictions without and with DANN."""
    options = {"source_split": "train", "target_split": "train", "data_dir": str(data)}
    domains = dann.data.tfds_pair("usps", "mnist", image_size=28, **options)
    methods = {"source only": "source_only", "DANN": "dann"}
    predicted = {key: read_predictions(runs / f"usps_{run}") for key, run in methods.items()}
    draw_predictions("usps", domains, predicted, ("USPS", "MNIST"))


def draw_bars(axes, names, means, deviations, label, chance):
    """Draws balanced accuracies in percent, with their standard deviations, and chance."""
    axes.barh(names, means, xerr=deviations, color="#9aa5d8", capsize=3)
    axes.invert_yaxis()
    label = f"balanced accuracy on {label} (%)\nmean ± 1 standard deviation, 3 seeds"
    axes.set(xlim=(0, 100), xlabel=label)
    axes.axvline(chance, color="k", linestyle=":", label="chance")
    axes.legend(loc="upper right", frameon=False)


def compare(domains, methods, backbone):
    """Prints balanced accuracies on the target in percent: mean and deviation over three seeds."""
    backbone = functools.partial(backbone, domains.input_shape)
    comparison = dann.compare(domains, methods, backbone=backbone, steps=500, verbose=False)
    accuracy = comparison.runs.groupby("setting")["target/balanced_accuracy"]
    table = 100 * accuracy.agg(["mean", "std"])
    print(table.round(1).to_string(), flush=True)
    return table


def predict(domains, method, backbone, steps):
    """Returns the classes that seed 0 of a comparison predicts for the target's test set."""
    start(0)
    model = method(backbone(domains.input_shape), domains.num_classes)
    beta_1 = 0.5 if method is dann.DANN else 0.9  # as in `compare`
    model.compile(keras.optimizers.Adam(beta_1=beta_1))
    model.fit(domains.batches(64, seed=0), steps_per_epoch=steps, verbose=0)
    return model.predict(domains.target_test[0], verbose=0).argmax(axis=1)


def emoji(data, runs):
    """Draws emoji in black and white and in color."""
    from benchmarks.natural_tasks import load_emoji_images

    images = load_emoji_images("fluent_high_contrast", "fluent_flat", data, 128)
    titles = "Fluent, black and white", "Fluent, in color"
    draw_predictions("emoji", images, {}, titles, shorten_names(images))


def styles(data, runs):
    """Draws emoji of two vendors, classified from pixels, and predictions without and with DANN."""
    from benchmarks.natural_tasks import load_emoji_images

    images = load_emoji_images("emojione", "twemoji", data)
    backbone = functools.partial(dann.networks.cnn_backbone, filters=(16, 32), units=100)
    methods = {"source only": dann.SourceOnly, "DANN": dann.DANN}
    predicted = {key: predict(images, method, backbone, 250) for key, method in methods.items()}
    draw_predictions("styles", images, predicted, ("EmojiOne", "Twemoji"), shorten_names(images))


def shorten_names(domains):
    """Returns the first word of the name of each class."""
    return [name.split("-")[0] for name in domains.class_names]


def texts(data, runs):
    """Draws the accuracies of methods that learn from tweets to classify reviews."""
    table = pandas.read_csv(ROOT / "docs/when-to-adapt.csv").query("task == 'tweets → amazon'")
    accuracy = table.groupby("setting")["target/balanced_accuracy"]
    names = {"source_only": "source only", "MCC": "MCC", "DANN": "DANN", "SDAT": "SDAT"}
    names |= {
        "standardized each": "per-domain\nstandardization",
        "target_only": "trained on\ntarget labels",
    }
    table = 100 * accuracy.agg(["mean", "std"]).loc[[*names]]
    print(table.round(1).to_string())
    figure = Figure(figsize=(4.8, 2.8), dpi=200, layout="constrained")
    axes = figure.subplots()
    draw_bars(axes, [*names.values()], table["mean"], table["std"], "reviews", 50)
    figure.savefig(FOLDER / "gallery-texts.png")


def oscillation(data, runs):
    """Draws the loss of a discriminator that oscillates, and of a calmer one."""
    from benchmarks.natural_tasks import load_emoji

    domains = load_emoji("fluent_high_contrast", "fluent_flat", data)
    figure = Figure(figsize=(4.8, 3.2), dpi=160, layout="constrained")
    axes = figure.subplots()
    for beta, style, color in ((0.9, "-", WRONG), (0.5, "--", "#1b4f8f")):
        start(0)
        backbone = dann.networks.mlp_backbone(domains.input_shape, hidden_units=(128, 128))
        model = dann.DANN(backbone, domains.num_classes)
        model.compile(keras.optimizers.Adam(beta_1=beta))
        pairs = domains.batches(64, seed=0)
        history = model.fit(pairs, steps_per_epoch=10, epochs=50, verbose=0).history
        axes.plot(
            range(10, 501, 10), history["domain/loss"], style, color=color, label=f"beta_1 = {beta}"
        )
    axes.axhline(np.log(2), color="0.5", linestyle=":", label="chance")
    label = "training step\n(seed 0; each point is the mean of 10 steps)"
    axes.set(xlabel=label, ylabel="domain/loss (nats)", ylim=(0, None))
    axes.grid(color="0.92")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(FOLDER / "oscillation.png")


def load_arms(signs=(1, 1, 1, 1, 1, 1), window=100):
    """Pairs five people with a watch on the left arm with five people with it on the right arm.

    Args:
        signs: Factors of the target's channels.
        window: Number of samples per example, at 50 Hz.
    """
    from seglearn.datasets import load_watch

    recordings = load_watch()
    parts = []
    for side, people, factors in ((0, range(1, 6), 1), (1, range(6, 11), signs)):
        windows, labels, groups = [], [], []
        is_part = (recordings["side"] == side) & np.isin(recordings["subject"], people)
        for number in np.flatnonzero(is_part):
            series = recordings["X"][number]
            count = len(series) // window
            windows += list(series[: count * window].reshape(count, window, 6) * factors)
            labels += count * [int(recordings["y"][number])]
            groups += count * [int(recordings["subject"][number])]
        parts.append((np.array(windows, "float32"), np.array(labels), np.array(groups)))
    (x, y, people), (target_x, target_y, target_people) = parts
    options = {"groups": (people, target_people), "class_names": recordings["y_labels"]}
    domains = dann.data.arrays((x, y), (target_x, target_y), test_share=0.4, **options)
    return domains.standardize("source")


def arms(data, runs):
    """Draws a watch on the left and on the right arm, and the accuracies of both."""
    backbone = functools.partial(dann.networks.time_series_backbone, filters=(32, 64, 32))
    domains, mirrored = load_arms(), load_arms(MIRROR)
    table = compare(domains, ["dann", "cdan", "sdat", "mcc"], backbone)
    table.loc["source only, signs flipped"] = compare(mirrored, [], backbone).loc["source_only"]
    figure = Figure(figsize=(4.8, 4.6), dpi=200, layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1.1])
    panels = top.subplots(1, 2, sharey=True)
    top.suptitle("one example of the exercise ROW", fontsize=10)
    exercise = domains.class_names.index("ROW")
    (inputs, labels), (target, target_labels) = domains.source_train, domains.target_test
    series = inputs[labels == exercise][2], target[target_labels == exercise][2]
    for axes, values, title in zip(panels, series, ("left arm", "right arm"), strict=True):
        for channel, style in zip(values.T[:3], ("-", "--", ":"), strict=True):
            axes.plot(np.arange(len(channel)) / 50, channel, style, linewidth=2)
        axes.set(title=title, xlabel="seconds")
    panels[0].legend(["x", "y", "z"], ncols=3, frameon=False, handlelength=1.5, columnspacing=1)
    panels[0].set(ylabel="acceleration\n(standardized)", ylim=(-3, 3))
    axes = bottom.subplots()
    names = {"source_only": "source only", "dann": "DANN", "cdan": "CDAN", "sdat": "SDAT"}
    names |= {"mcc": "MCC", "source only, signs flipped": "source only, signs flipped"}
    rows = table.loc[[*names]]
    draw_bars(axes, [*names.values()], rows["mean"], rows["std"], "the right arm", 100 / 7)
    figure.savefig(FOLDER / "gallery-arms.png")


if __name__ == "__main__":
    data, runs, *cases = sys.argv[1:]
    for draw in (features, usps, texts, emoji, oscillation, styles, arms):
        if not cases or draw.__name__ in cases:
            draw(pathlib.Path(data), pathlib.Path(runs))
