"""Checkpoints with random damage: each is named and the one before it is used, or refused."""

import hashlib
import shutil

import keras
import numpy as np
import pytest
from support.corruptions import mutated
from support.peak_memory import peak_memory

import dann
from dann.training import fit
from dann.training.checkpoints import Checkpoints
from dann.training.run_directory import ResumeError

# How many mutations are tried: a few always, and the rest by `pytest -m slow`.
COUNTS = [pytest.param(10, id="10"), pytest.param(500, id="500", marks=pytest.mark.slow)]
FILES = ("model.keras", "arrays.npz", "state.json", "SHA256SUMS")
X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")


def train(folder, epochs):
    keras.utils.set_random_seed(0)
    model = dann.SourceOnly(dann.networks.mlp_backbone((3,), hidden_units=(4,)), num_classes=2)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), run_eagerly=True)
    pairs = dann.data.pair((X, np.arange(8) % 2), X + 1, 4, repeat=True, seed=0)
    callbacks = [keras.callbacks.EarlyStopping("loss", patience=9)]
    return fit(
        model, pairs, folder, epochs=epochs, steps_per_epoch=1, callbacks=callbacks, verbose=0
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the checkpoints of steps 1 and 2."""
    folder = tmp_path_factory.mktemp("trained") / "checkpoints"
    train(folder, 2)
    return folder


def damage(folder, files, rng):
    """Damages one of these files of the newest checkpoint."""
    path = folder / "step-2" / files[int(rng.integers(len(files)))]
    path.write_bytes(mutated(path.read_bytes(), rng))


def sign_again(folder):
    """Writes sums that fit the damage, as a forger would."""
    names = FILES[:3]
    sums = {name: hashlib.sha256((folder / "step-2" / name).read_bytes()) for name in names}
    lines = [f"{value.hexdigest()}  {name}\n" for name, value in sums.items()]
    (folder / "step-2" / "SHA256SUMS").write_text("".join(lines))


@pytest.mark.parametrize("count", COUNTS)
def test_the_checkpoint_before_a_damaged_one_is_used(trained, tmp_path, capsys, count):
    rng = np.random.default_rng(5)
    whole = Checkpoints(trained).newest()
    same = 0
    with peak_memory() as peak:
        for number in range(count):
            folder = shutil.copytree(trained, tmp_path / str(number))
            damage(folder, FILES, rng)
            found = Checkpoints(folder).newest()
            told = capsys.readouterr().err
            if found.path.name == "step-2":  # such as a line more in the sums
                same += 1
                assert found.state == whole.state
                assert told == ""
            else:
                assert found.path.name == "step-1"
                assert told.count("\n") == 1
                assert "step-2" in told
            shutil.rmtree(folder)
        with capsys.disabled():
            print(f"checkpoints: {count}, {same} of them as they were, {peak():.0f} MB")
        assert peak() < 200


@pytest.mark.parametrize("count", COUNTS)
def test_a_forged_checkpoint_goes_on_or_is_refused_in_one_line(trained, tmp_path, capfd, count):
    rng = np.random.default_rng(6)
    refusals = []
    for number in range(count):
        folder = shutil.copytree(trained, tmp_path / str(number))
        damage(folder, FILES[:3], rng)
        sign_again(folder)
        try:
            train(folder, 3)
        except (ResumeError, FloatingPointError) as error:
            refusals.append(str(error))
        shutil.rmtree(folder)
    print(f"forged checkpoints: {count}, {len(refusals)} refused")
    assert len(refusals) >= count // 10
    assert all(len(refusal.splitlines()) == 1 for refusal in refusals)
