"""Mistakes of a user: one line of error, exit status 1, and no file created or changed."""

import io
import subprocess
import sys

import pytest

SHORT = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp", "debug=fast"]
SHORT += ["compare=false", "selection=none", "hydra.run.dir=run"]
REFUSALS = {
    "train.py": {
        "methd=cdan": "Could not override 'methd'. Did you mean method?",
        "method=DANN": "Could not find 'method/DANN'. Did you mean dann, ",
        "data=images": "Could not find 'data/images'. Choose from csv, digits_to_photos, ",
        "regularizer=[mcc,vta]": "Could not load 'regularizer/vta'. Did you mean vat",
        "lr=0.01": "Did you mean network.learning_rate, optimizer.learning_rate?",
        "steps=10": "Could not override 'steps'. Did you mean trainer.steps?",
        "optimizer=bop optimizer.learning_rate=1": "optimizer.optimizers.binary.learning_rate",
        "--steps 10": "written without dashes: trainer.steps=10. Received: --steps 10",
        "--batch-size=8": "trainer.batch_size=8. Received: --batch-size=8",
        "seed=-1 network=mlp": "`seed` to be an integer from 0 to 4294967295. Received: seed=-1",
        "trainer.steps=1e3": "trainer.steps=1e3: Value '1000.0' of type 'float' could not be",
        "method=cdan -m seed=0, 1": "without spaces after commas, and quotes around text",
        "hydra.run.dir=ö,(a)": "quotes around text with special characters: 'key=",
        "data=tfds": "Missing required key: data.source, data.target",
        "+trainer.stepz=1": "Key 'stepz' not in 'Trainer'. Did you mean trainer.steps",
        "batchsize=8": "Could not override 'batchsize'. Did you mean trainer.batch_size?",
        "method=dann,cdan": "To sweep over it, add --multirun",
        "hydra.run.dir=a,b": "To use it as string, quote the value",
        "resume=true": "No unfinished run in runs/ has these settings",
        "optimizer._target_=keras.optimizers.Adm": "Did you mean keras.optimizers.Adam, ",
        "method.strength=${no.key}": "method.strength: ",
        "paths.data_dir=nowhere": "paths.data_dir must be an existing directory",
        "data=mnist_to_mnist_m paths.data_dir=.": "paths.data_dir) to contain mnist/ for mnist",
    },
    "reproduce.py": {
        "overrides=[a=1,b]": "quotes around text with special characters",
        "experiments=[nothing]": "nothing",
    },
}
CASES = [(script, *case) for script, cases in REFUSALS.items() for case in cases.items()]


@pytest.mark.parametrize(
    ("script", "command", "words"), CASES, ids=[command for _, command, _ in CASES]
)
def test_wrong_command_prints_one_line(script, command, words, tmp_path, run_here, check_refused):
    check_refused(run_here(script, command.split(), tmp_path), words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "overrides", "words"),
    [
        ("run/notes.txt", "hydra.run.dir=run", "run, which contains notes.txt"),
        ("run/summary.json", "hydra.run.dir=run overwrite=true", "summary.json, which no run"),
        ("run/.hydra/overrides.yaml", "hydra.run.dir=run overwrite=true", "which no run wrote"),
        ("sweep/multirun.yaml", "-m hydra.sweep.dir=sweep seed=0", "which no sweep wrote"),
        ("sweep/sweep.csv", "-m hydra.sweep.dir=sweep seed=0", "sweep.csv, which no sweep wrote"),
        ("file", "hydra.run.dir=file/run", "[Errno 20] Not a directory: "),
    ],
)
def test_unrelated_files_are_preserved(file, overrides, words, tmp_path, run_here, check_refused):
    (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / file).write_text("mine")
    check_refused(run_here("train.py", overrides.split(), tmp_path), words)
    assert (tmp_path / file).read_text() == "mine"


START = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as stop:
    print(stop.code)
print([name for name in ("keras", "tensorflow", "pandas", "dann") if name in sys.modules])
"""


@pytest.mark.parametrize(
    "command",
    [
        "train.py --help",
        "train.py methd=cdan",
        "train.py +trainer.stepz=1",
        "train.py --steps 10",
        "evaluate.py run=nowhere",
    ],
)
def test_help_and_wrong_commands_import_no_keras(command, scripts, tmp_path):
    script, *arguments = command.split()
    words = [sys.executable, "-c", START, str(scripts / script), *arguments]
    result = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    last_lines = result.stdout.splitlines()[-2:]
    assert last_lines[-1] == "['dann']"
    assert last_lines[0] == "1" or arguments == ["--help"]


@pytest.mark.parametrize("encoding", ["ascii", None])
def test_run_needs_no_output(encoding, tmp_path, run_well, with_features):
    output = encoding and io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    run_well("train.py", SHORT, with_features(tmp_path), output)
    assert (tmp_path / "run/summary.json").is_file()


def test_full_disk_ends_a_run_with_one_line(tmp_path, run_here, with_features):
    metrics = "callbacks.metrics.filename=/dev/full"  # each write reports a full disk
    result = run_here("train.py", [*SHORT, metrics], with_features(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("error: [Errno 28] No space left on device")
    assert not (tmp_path / "run/summary.json").is_file()
    assert [*tmp_path.rglob("*.dann-draft*"), *tmp_path.rglob(".dann-lock")] == []
