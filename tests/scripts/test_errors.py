"""Mistakes of a user: one line of error, exit status 1, and no file created or changed."""

import pathlib
import signal
import subprocess
import sys

import hydra
import pytest

from dann.config.script import _delay_interrupt, _prepare_process, script

ROOT = pathlib.Path(__file__).parents[2]
SHORT = ["data=npz", "data.source=a.npz", "data.target=b.npz", "network=mlp", "debug=fast"]
SHORT += ["compare=false", "selection=none", "hydra.run.dir=run"]
REFUSALS = {
    "train.py methd=cdan": "Could not override 'methd'. Did you mean method?",
    "train.py method=MCC": "error: Could not find 'method/MCC'. Did you mean regularizer=mcc?",
    "train.py network=resnet50": "'network/resnet50'. For `keras.applications`: network=keras_",
    "train.py hydra/launcher=basics": "ray or submitit: `pip install hydra-<name>-launcher`",
    "train.py data=images": "Could not find 'data/images'. Choose from csv, digits_to_photos, ",
    "train.py regularizer=[mcc,vta]": "Could not load 'regularizer/vta'. Did you mean vat",
    "train.py lr=0.01": "Did you mean network.learning_rate, optimizer.learning_rate?",
    "train.py trainer.epochs=0": "`trainer.epochs` to be an integer >= 1. Received: trainer.",
    "train.py selection.scores=[foo]": "one of 'all', 'bnm', 'entropy', 'info_max', ",
    "train.py selection.rank_by=foo": "one of None, 'agreement', 'bnm', 'entropy', 'info_max', ",
    "train.py selection.keep=foo": "one of None, 'source_accuracy', 'entropy', 'info_max', ",
    "train.py steps=10": "Could not override 'steps'. Did you mean trainer.steps?",
    "train.py optimizer=bop optimizer.learning_rate=1": "optimizer.optimizers.binary.learning_rate",
    "train.py optimizer=adam optimizer.beta_2=1": "optimizer.beta_1? A new key needs +optimizer.be",
    "train.py --steps 10": "written without dashes: trainer.steps=10. Received: --steps 10",
    "train.py --batch-size=8": "trainer.batch_size=8. Received: --batch-size=8",
    "train.py seed=-1 network=mlp": "to be an integer from 0 to 4294967295. Received: seed=-1",
    "train.py schedule.high=-1": "error: schedule: Expected `high` to be a finite number >= 0",
    "train.py schedule=0.1": "Choose by name (schedule=ganin); set numbers by key (schedule.high=",
    "train.py schedule.hi=1": "Keys of schedule: total_steps, gamma, high. A new key needs +sched",
    "train.py trainer.steps=1e3": "trainer.steps=1e3: Expected an integer. Received: '1000.0'",
    "train.py method=cdan -m seed=0, 1": "without spaces after commas, and quotes around text",
    "train.py hydra.run.dir=~/ö,(a)": "text with special characters: 'hydra.run.dir=\"/",
    "evaluate.py run": "such as run=value. Received: run",
    "evaluate.py runs/a": "such as run=runs/a. Received: runs/a",
    "train.py data=tfds": "Missing required key: data.source, data.target",
    "train.py +trainer.stepz=1": "Key 'stepz' not in 'Trainer'. Did you mean trainer.steps",
    "train.py method=dann,cdan": "add -m: -m method=dann,cdan. For a list write method=[dann,cdan]",
    "train.py resume=true": "No unfinished run in runs/ has these settings",
    "train.py optimizer._target_=keras.optimizers.Adm": "Did you mean keras.optimizers.Adam, ",
    "train.py method.strength=${no.key}": "method.strength: ",
    "train.py paths.data_dir='~/nowhere'": "existing directory. Received: /",
    "train.py data=mnist_to_mnist_m paths.data_dir=.": "paths.data_dir) to contain mnist/ for",
    "train.py data=image_folder data.root=no data.source=a data.target=b": "data.source: no such f",
    "train.py hydra.run.dir=/sys/x": "or write to another hydra.run.dir=",
    "train.py paths.cache_dir=/sys/x": "or store prepared data in another paths.cache_dir=",
    "reproduce.py experiments=[nothing]": "nothing",
}


@pytest.mark.parametrize(("command", "words"), REFUSALS.items(), ids=REFUSALS)
def test_wrong_command_prints_one_line(command, words, tmp_path, run_here, check_refused):
    script, *arguments = command.split()
    check_refused(run_here(script, arguments, tmp_path), words)
    assert list(tmp_path.iterdir()) == []


UNRELATED_FILES = {
    "run/.hydra/overrides.yaml": ("hydra.run.dir=run overwrite=true", "which no run wrote"),
    "sweep/multirun.yaml": ("-m hydra.sweep.dir=sweep seed=0", "which no sweep wrote"),
    "sweep/sweep.csv": ("-m hydra.sweep.dir=sweep seed=0", "sweep.csv, which no sweep wrote"),
    "file": ("hydra.run.dir=file/run", "[Errno 20] Not a directory: "),
}


@pytest.mark.parametrize("file", UNRELATED_FILES)
def test_unrelated_files_are_preserved(file, tmp_path, run_here, check_refused):
    overrides, words = UNRELATED_FILES[file]
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


WORDS = ["--help", "methd=cdan", "+trainer.stepz=1", "--steps 10", "trainer.epochs=0"]
WORDS += ["data=npz data.source=a data.target=b"]
COMMANDS = [*(f"train.py {word}" for word in WORDS), "export.py --help", "evaluate.py run=nowhere"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_wrong_commands_import_no_keras(command, tmp_path):
    script, *arguments = command.split()
    words = [sys.executable, "-c", START, str(ROOT / "scripts" / script), *arguments]
    result = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    lines = result.stdout.splitlines()
    assert lines[-1] == "['dann']"
    assert lines[-2] == "1" or arguments == ["--help"]
    if arguments == ["--help"]:
        assert " the classifier of a run, " in lines[0] or " target data." in lines[0]
        assert "Example: " in "".join(lines[1:5])
        assert "???" not in result.stdout
        assert "null  # number of passes over" in result.stdout or "packed  # or c" in result.stdout
        assert max(len(line) for line in lines if "/" not in line) <= 100
        groups = [path.name for path in (ROOT / "conf").iterdir() if path.is_dir()]
        shown_groups = [group for group in groups if f"{group}: " in result.stdout]
        assert shown_groups == groups or (script == "export.py" and "method" not in shown_groups)


def test_full_disk_ends_a_run_with_one_line(tmp_path, run_here, with_features):
    metrics = "callbacks.metrics.filename=/dev/full"  # each write reports a full disk
    result = run_here("train.py", [*SHORT, metrics], with_features(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("error: [Errno 28] No space left on device")
    assert not (tmp_path / "run/summary.json").is_file()
    assert [*tmp_path.rglob("*.dann-draft*"), *tmp_path.rglob(".dann-lock")] == []


def test_closed_output_is_replaced(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    _prepare_process()
    assert sys.stdout.write("text") == 4


def test_job_can_be_sent_to_another_process(monkeypatch):
    dumps, sent = pytest.importorskip("cloudpickle").dumps, []
    monkeypatch.setattr(hydra, "main", lambda **_: lambda job: lambda: sent.append(dumps(job)))
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # `script` sets it
    script("train")(print)()
    assert len(sent) == 1


def test_ctrl_c_waits_for_imports():
    steps = []

    def interrupted_import():
        with _delay_interrupt():
            signal.raise_signal(signal.SIGINT)
            steps.append("import")

    with pytest.raises(KeyboardInterrupt):
        interrupted_import()
    assert steps == ["import"]
