"""What a user can get wrong is told in one line, with an exit status of 1, and leaves nothing."""

import io

import pytest

WRONG = {
    "train.py": {
        "methd=cdan": "No key methd. Did you mean method?",
        "method=DANN": "No method=DANN. Did you mean dann, ",
        "experiment=zzz": "No experiment=zzz. See --help",
        "lr=0.01": "Did you mean network.learning_rate, optimizer.learning_rate?",
        "steps=10": "No key steps. Did you mean trainer.steps?",
        "trainer.stps=1": "No key trainer.stps. Did you mean trainer.steps?",
        "zzz=1": "No key zzz. See --help",
        "optimizer=bop optimizer.learning_rate=1": "optimizer.optimizers.binary.learning_rate",
        "trainer.steps=1e3": "trainer.steps=1e3: Value '1000.0' of type 'float' could not be",
        "seed=abc": "seed=abc: Value 'abc' of type 'str' could not be converted to Integer",
        "seed": "Arguments are key=value. Received: seed",
        "data=tfds": "Missing required key: data.source, data.target",
        "+trainer.stepz=1": "trainer.stepz",
        "optimizer._target_=os.system": "`_target_` must be",
        "optimizer._target_=keras.optimizers.Adm": "Did you mean keras.optimizers.Adam, ",
        "method.strength=${no.key}": "method.strength: ",
        "paths.data_dir=nowhere": "paths.data_dir must be an existing directory",
        "schedule.high=-1": "method.strength: Argument `high` must be",
        "method.way=other": "Received: way='other'",
        "optimizer.momentum=-1": "optimizer: `momentum` must be",
        "trainer.steps=150": "trainer.steps must be a multiple of trainer.steps_per_epoch",
        "trainer.batch_size=9000": "must fill a batch of 9000",
        "callbacks.metrics=0": "callbacks.metrics must name a Callback",
        "network=binary_lenet network.binary=false callbacks=binary": "none trains",
    },
    "evaluate.py": {
        ".": "Did you mean run=.?",
        "": "Missing required key: run",
        "run=nowhere": "nowhere/metrics.csv",
    },
    "reproduce.py": {"overrides=[a=1,b]": """quotes: 'overrides=["a=1","b"]'. Received:"""},
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


def test_an_error_removes_nothing_from_a_directory_that_was_there(tmp_path, run_here):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine")
    result = run_here("train.py", ["schedule.high=-1", "hydra.run.dir=run"], tmp_path)
    assert result.returncode == 1
    assert (tmp_path / "run/notes.txt").read_text() == "mine"


def test_an_error_that_a_user_cannot_mend_shows_where_it_is(tmp_path, run_here, monkeypatch):
    monkeypatch.setattr("dann.config.build_domains", lambda cfg: {}["no such key"])
    with pytest.raises(KeyError):
        run_here("train.py", [], tmp_path)


@pytest.mark.usefixtures("prepared_digits")
@pytest.mark.parametrize("encoding", ["ascii", None])
def test_an_output_that_is_narrow_or_closed_ends_no_run(encoding, tmp_path, run_here):
    output = encoding and io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    arguments = ["debug=fast", "compare=false", "selection=none", "hydra.run.dir=run"]
    done = run_here("train.py", arguments, tmp_path, output)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/summary.json").is_file()
