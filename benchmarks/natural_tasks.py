"""Trains methods and simple baselines on natural shifts, and adds the runs to a CSV file.

python benchmarks/natural_tasks.py <folder>

The folder contains vaderSentiment-3.3.2.tar.gz, mnist/, usps/, bsds500/ and emoji/. Runs that are
already in docs/when-to-adapt.csv are not repeated. The emoji tasks on which no setting was chosen
are trained last. Requires the extra `benchmarks`.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import sys
import time
from functools import partial
from typing import Any

import keras
import numpy as np
import pandas

import dann
from benchmarks.efficientnet_lite import efficientnet_lite0
from dann.schedules import GaninSchedule

CSV = pathlib.Path(__file__).parents[1] / "docs/when-to-adapt.csv"
CACHE = pathlib.Path(os.environ.get("DANN_CACHE_DIR", "~/.cache/dann")).expanduser()
TEXTS = "tweets", "amazon", "films", "nyt"
FIRST, LAST = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)
PEOPLE = {"people 1-5 → 6-10": (FIRST, LAST), "people 6-10 → 1-5": (LAST, FIRST)}
EMOJI = "openmoji", "emojione", "emojione_v1", "fluent_flat", "fluent_high_contrast"
HELD_OUT_STYLES = "noto", "twemoji"  # no setting was chosen on pairs with these styles
SPLITS: Any = {"image_size": 16} | dict.fromkeys(["source_split", "target_split"], "train[:6000]")
SPLITS |= dict.fromkeys(["source_test_split", "target_test_split"], "test[:2000]")
STEPS = 500
IMAGE_STEPS = 250  # of emoji images
SEEDS = (0, 1, 2)
COLUMNS = ["task", "setting", "seed", "source/balanced_accuracy", "target/accuracy"]
COLUMNS += ["target/balanced_accuracy"]


def source_only_with(regularizer):
    """Returns a method without an adversary; models must not share regularizers."""
    return lambda *args: dann.SourceOnly(*args, regularizers=[regularizer()])


BASELINES = {"CORAL": source_only_with(dann.CORAL), "MCC": source_only_with(dann.MCC)}
CONTROL = {"control: reversal off": partial(dann.DANN, strength=0.0)}
ADVERSARIES = {"DANN": dann.DANN, "CDAN": dann.CDAN, "SDAT": partial(dann.CDAN, task_radius=0.05)}
STANDARDIZED = {
    f"standardized each + {name}": method
    for name, method in (BASELINES | ADVERSARIES).items()
    if name in ("MCC", "DANN", "SDAT")
}
OTHER_METHODS = {
    "DANN, rising to 1": partial(dann.DANN, strength=GaninSchedule(STEPS)),
    "CDAN+E": partial(dann.CDAN, entropy_conditioning=True),
    "ELS": partial(dann.DANN, domain_label_smoothing=0.1),
    "f-DAL": dann.FDAL,
    "MCD": dann.MCD,
    "MDD": dann.MDD,
    "DALN": dann.DALN,
    "WDGRL": dann.WDGRL,
}
# Methods that are also trained with another `beta_1` of Adam than the default of `compare`.
OTHER_MOMENTA = {0.9: {*ADVERSARIES, *OTHER_METHODS}, 0.5: {"MCC"}}


def make_tasks(folder):
    """Returns, by task, a function that loads the domains, a backbone and the methods."""
    mlp = partial(dann.networks.mlp_backbone, hidden_units=(128, 128))
    time_series = partial(dann.networks.time_series_backbone, filters=(32, 64, 32))
    cnn = partial(dann.networks.cnn_backbone, filters=(16, 32), units=100)
    methods, tasks = BASELINES | ADVERSARIES, {}
    # Networks without batch normalization need no control: reversal off equals source only.
    everything = methods | OTHER_METHODS
    for pair in itertools.permutations(TEXTS, 2):
        load = partial(dann.data.sentiment, *pair, data_dir=folder)
        tasks[" → ".join(pair)] = load, mlp, everything
    everything = CONTROL | everything
    for name, pair in PEOPLE.items():
        load = partial(dann.data.smartwatch_activities, *pair)
        tasks[name] = load, time_series, everything
    tasks["digits → photos"] = partial(dann.data.digits_to_photos, str(CACHE)), cnn, everything
    for pair in (("mnist", "usps"), ("usps", "mnist"), ("mnist", "mnist_m")):
        load = partial(dann.data.tfds_pair, *pair, data_dir=folder, **SPLITS)
        tasks[" → ".join(pair)] = load, cnn, everything
    pairs = itertools.permutations(EMOJI + HELD_OUT_STYLES, 2)
    for pair in sorted(pairs, key=is_held_out):
        name = " → ".join(f"emoji {style}" for style in pair)
        tasks[name] = partial(load_emoji, *pair, folder), mlp, methods
        name = " → ".join(f"image {style}" for style in pair)
        tasks[name] = partial(load_emoji_images, *pair, folder), cnn, CONTROL | methods
    return tasks


def is_held_out(pair):
    """Returns whether no setting was chosen on a pair of styles."""
    return not {*HELD_OUT_STYLES}.isdisjoint(pair)


def load_emoji(source, target, folder):
    """Returns frozen features `(n, 1280)` of emoji in two styles, drawn at 128 pixels."""
    return load_emoji_images(source, target, folder, 128).map_inputs(extract_features)


def load_emoji_images(source, target, folder, size=48):
    """Returns images `(n, size, size, 3)` of emoji in two styles."""
    return dann.data.emoji(source, target, image_size=size, data_dir=folder, cache_dir=str(CACHE))


def extract_features(images):
    """Returns the features of a pretrained network, from a file that is written only once."""
    images = np.asarray(images[:])
    path = CACHE / f"features/{hashlib.sha256(images.tobytes()).hexdigest()}.npy"
    if not path.exists():
        network: Any = load_frozen_network()
        features = network.predict(images, batch_size=32, verbose=0)["features"]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, features)
    return np.load(path)


load_frozen_network = functools.cache(partial(efficientnet_lite0, 128))


def train_task(load, network, methods, finished, steps):
    """Returns the rows of the settings of a task that are not finished."""
    domains, tables = load(), []
    is_image, is_table = len(domains.input_shape) == 3, len(domains.input_shape) == 1
    compare = partial(dann.compare, seeds=SEEDS, steps=steps)
    backbone = partial(network, domains.input_shape)
    missing = {name: method for name, method in methods.items() if name not in finished}
    if missing:
        # The oracle is trained where the pair has target labels.
        pair = without_target_labels(domains) if "target_only" in finished else domains
        tables.append(compare(pair, missing, backbone=backbone).runs)
    domains = without_target_labels(domains)
    for beta_1, names in OTHER_MOMENTA.items():
        suffix = f", beta_1 {beta_1}"
        changed = {f"{name}{suffix}": methods[name] for name in methods if name in names}
        if not {*changed} <= finished:
            adam = partial(keras.optimizers.Adam, beta_1=beta_1)
            runs = compare(domains, changed, backbone=backbone, optimizer=adam).runs
            tables.append(runs.replace({"setting": {"source_only": f"source only{suffix}"}}))
    if is_table and "gradient boosting" not in finished:
        runs = compare(domains, ["gradient_boosting"], backbone=backbone).runs
        runs = runs.replace({"setting": {"gradient_boosting": "gradient boosting"}})
        tables.append(runs[runs["setting"] == "gradient boosting"])
    if not {*STANDARDIZED} <= finished:
        if is_image:
            backbone = partial(backbone, input_range=(-1, 1))  # changes no standardized pixel
        pair = domains.standardize("each").map_inputs(lambda inputs: np.asarray(inputs[:]))
        runs = compare(pair, STANDARDIZED, backbone=backbone).runs
        tables.append(runs.replace({"setting": {"source_only": "standardized each"}}))
    # The distilled average depends on the methods beside it. Source only has beta_1 0.9 anyway.
    omitted_settings = {*finished, "distilled_average", "source only, beta_1 0.9"}
    return [runs[~runs["setting"].isin(omitted_settings)] for runs in tables]


def without_target_labels(domains):
    """Returns the pair without labels for an oracle."""
    return dataclasses.replace(domains, target_train_labels=None)


def main(folder):
    """Trains the missing runs, and adds them to the CSV file task by task."""
    runs = pandas.read_csv(CSV)
    for task, (load, network, methods) in make_tasks(folder).items():
        finished = set(runs["setting"][runs["task"] == task])
        steps = IMAGE_STEPS if task.startswith("image") else STEPS
        if tables := train_task(load, network, methods, finished, steps):
            rows = pandas.concat(tables).assign(task=task).reindex(columns=COLUMNS).round(4)
            runs = pandas.concat([runs, rows.sort_values(["setting", "seed"])])
            runs.to_csv(CSV, index=False)
    print(f"{time.process_time() / 3600:.2f} CPU hours")


if __name__ == "__main__":
    main(sys.argv[1])
