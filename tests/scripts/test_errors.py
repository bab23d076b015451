"""What a user can get wrong is told in one line, with an exit status of 1, and leaves nothing."""

import io

import pytest

SHORT = ["debug=fast", "compare=false", "selection=none", "hydra.run.dir=run"]
WRONG = {
    "train.py": {
        "methd=cdan": "No key methd. Did you mean method?",
        "method=DANN": "No method=DANN. Did you mean dann, ",
        "experiment=zzz": "No experiment=zzz. See --help",
        "regularizer=[mcc,vta]": "No regularizer=vta. Did you mean vat",
        "lr=0.01": "Did you mean network.learning_rate, optimizer.learning_rate?",
        "steps=10": "No key steps. Did you mean trainer.steps?",
        "trainer.stps=1": "No key trainer.stps. Did you mean trainer.steps?",
        "zzz=1": "No key zzz. See --help",
        "optimizer=bop optimizer.learning_rate=1": "optimizer.optimizers.binary.learning_rate",
        "trainer.steps=1e3": "Did you mean 1000?",
        "seed=abc": "seed=abc: Value 'abc' of type 'str' could not be converted to Integer",
        "seed": "Arguments are key=value. Received: seed",
        "method=cdan -m seed=0, 1": "no space may follow one. Received: seed=0,",
        "trainer.steps=0": "Expected `trainer.steps` to be an integer >= 1",
        "trainer.epochs=0": "Expected `trainer.epochs` to be an integer >= 1",
        "data=tfds": "Missing required key: data.source, data.target",
        "+trainer.stepz=1": "No key trainer.stepz. Did you mean trainer.steps",
        "batchsize=8": "No key batchsize. Did you mean trainer.batch_size?",
        "method=dann,cdan": "A sweep over several values needs -m",
        "hydra.run.dir=a,b": """one value with commas, 'hydra.run.dir="a,b"'""",
        "seed=1 run/(a,b)": """Did you mean 'run="run/(a,b)"'? Received: run/(a,b)""",
        "hydra.run.dir=ö,(a)": """needs quotes: 'hydra.run.dir="ö,(a)"'. Received: """,
        "resume=true": "No unfinished run in runs/ began with these settings",
        "optimizer._target_=os.system": "`_target_` must be",
        "optimizer._target_=keras.optimizers.Adm": "Did you mean keras.optimizers.Adam, ",
        "method.strength=${no.key}": "method.strength: ",
        "paths.data_dir=nowhere": "paths.data_dir must be an existing directory",
        "schedule.high=-1": "method.strength: Expected `high` to be",
        "method.implementation=other": "Received: implementation='other'",
        "trainer.steps=250": "trainer.steps must be a multiple of trainer.steps_per_epoch",
        "trainer.batch_size=9000": "from 1 to 8000, the source must fill one",
        "data=mnist_to_mnist_m paths.data_dir=.": "paths.data_dir) must contain mnist/ for mnist",
        "network=binary_lenet network.binary=false callbacks=binary": "none trains",
    },
    "reproduce.py": {
        "overrides=[a=1,b]": """quotes: 'overrides=["a=1","b"]'. Received:""",
        "experiments=[nothing]": "nothing",
    },
}


@pytest.mark.usefixtures("prepared_digits")
@pytest.mark.parametrize(
    ("script", "command"), [(script, command) for script in WRONG for command in WRONG[script]]
)
def test_a_wrong_command_is_told_in_one_line_and_leaves_nothing(
    script, command, tmp_path, run_here, check_refused
):
    check_refused(run_here(script, command.split(), tmp_path), WRONG[script][command])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "command", "told"),
    [
        ("run/notes.txt", "schedule.high=-1 hydra.run.dir=run", "Expected `high` to be"),
        ("file", "hydra.run.dir=file/run", "[Errno 20] Not a directory: "),
    ],
)
def test_an_error_removes_nothing_that_was_there(
    file, command, told, tmp_path, run_here, check_refused
):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("mine")
    check_refused(run_here("train.py", command.split(), tmp_path), told)
    assert (tmp_path / file).read_text() == "mine"


def test_an_error_that_a_user_cannot_mend_shows_where_it_is(tmp_path, run_here, monkeypatch):
    monkeypatch.setattr("dann.config.building.build_domains", lambda cfg: {}["no such key"])
    with pytest.raises(KeyError):
        run_here("train.py", [], tmp_path)


@pytest.mark.usefixtures("prepared_digits")
@pytest.mark.parametrize("encoding", ["ascii", None])
def test_an_output_that_is_narrow_or_closed_ends_no_run(encoding, tmp_path, run_well):
    output = encoding and io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    run_well("train.py", SHORT, tmp_path, output)
    assert (tmp_path / "run/summary.json").is_file()


def check_failed(result, folder, message):
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]  # after what TensorFlow says as it is imported
    assert last.startswith(f"error: {message}")
    assert not (folder / "run/summary.json").is_file()
    assert [*folder.rglob("*.part*"), *folder.rglob("run.lock")] == []


def test_a_full_disk_ends_a_run_with_one_line(prepared_digits, tmp_path, run_apart):
    metrics = "callbacks.metrics.filename=/dev/full"  # every write to it finds the disk full
    result = run_apart("train.py", [*SHORT, metrics], tmp_path)
    check_failed(result, tmp_path, "[Errno 28] No space left on device")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classifier.keras", "summary.json"])
def test_what_stands_in_the_way_of_a_runs_files_is_told(name, tmp_path, run_here):
    (tmp_path / "run" / name / "mine").mkdir(parents=True)
    check_failed(run_here("train.py", SHORT, tmp_path), tmp_path, "[Errno 21] Is a directory")
