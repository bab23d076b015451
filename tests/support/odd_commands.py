"""Odd commands of all scripts, and how each ends; run as a program by the tests.

    python odd_commands.py <folder> <number of commands> [<part>/<parts>]

Importing the libraries takes most of the time of a command, so this process imports them once and
forks a child for each. It prints a line of JSON for each command: its script and arguments, how it
ended ("refused", "told", "result" or "stopped", or "badly") and what was wrong. Half of the
commands are of `train.py`; all of them work on tiny data and train for two steps.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import resource
import runpy
import shutil
import signal
import socket
import sys
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import optuna  # noqa: F401
import tensorflow_datasets  # noqa: F401
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from PIL import Image
from support.configs import CONF, composed

import benchmarks.suites  # noqa: F401
import dann.deployment
import dann.training.diagnose_run
import dann.training.run  # noqa: F401
from dann.deployment import FORMATS
from dann.diagnostics import DIAGNOSTICS

ROOT = CONF.parent
CONFIGS = {  # by script
    "scripts/train.py": "train",
    "scripts/evaluate.py": "evaluate",
    "scripts/diagnose.py": "diagnose",
    "scripts/export.py": "export",
    "scripts/reproduce.py": "reproduce",
    "scripts/optimize.py": "optimize",
    "benchmarks/run.py": "benchmark",
}
TRAIN = "scripts/train.py"
GROUPS = {
    folder.name: sorted(file.stem for file in folder.glob("*.yaml"))
    for folder in CONF.iterdir()
    if folder.is_dir()
}
VALUES = [
    *("0", "-1", "1", "2", "3.5", "nan", "inf", "-inf", "1e9", "1e-9", "99999999999999999999"),
    *("abc", "a:b", "''", "null", "true", "false", "[]", "[1,2]", "[a]", "{}", "{a:1}", "é", "x.y"),
    *(
        "'../x'",
        "'a b'",
        "'%s'",
        "'\\n'",
        "'${seed}'",
        "'${oc.env:HOME}'",
        "'${no.key}'",
        "/dev/null",
    ),
    *("{_target_:os.system}", "{_target_:keras.layers.Dense,units:3}", "'${now:%Y}'", "4,5"),
]
OF_HYDRA = [
    *("hydra.run.dir=''", "hydra.run.dir=x/y", "hydra.run.dir=null", "hydra.run.dir=."),
    *("hydra.output_subdir=null", "hydra.output_subdir=conf", "hydra.job.chdir=true"),
    *("hydra.verbose=true", "hydra.verbose=abc", "hydra.job.name=''", "hydra.job.name=a/b"),
    *("hydra.mode=MULTIRUN", "hydra.mode=abc", "hydra.sweep.dir=s", "hydra.sweep.subdir=x"),
    *("hydra/launcher=basic", "hydra/launcher=joblib", "hydra/sweeper=basic", "hydra/sweeper=x"),
    *("hydra/job_logging=default", "hydra/job_logging=disabled", "hydra/hydra_logging=none"),
    *("hydra/output=x", "hydra/help=default", "hydra.callbacks=null", "hydra.callbacks={}"),
    *("~hydra.callbacks.claim", "hydra.callbacks.claim=null", "hydra.callbacks.claim._target_=x.y"),
    *("+hydra.foo=1", "hydra=null", "hydra=x", "~hydra", "hydra.searchpath=[file:///none]"),
    *("+hydra.job.env_set.A=b", "hydra.job.config.override_dirname.kv_sep=x", "+a@b=c"),
]
FLAGS = [
    *(["-m"], ["--help"], ["--cfg", "job"], ["--cfg", "all"], ["--info", "config"], ["--resolve"]),
    *(["--config-name", "x"], ["--config-path", "x"], ["--config-dir", "x"], ["--version"]),
    *(["--foo"], ["-x"], ["--package", "a.b", "--cfg", "job"], ["--hydra-help"], ["--run"]),
]
TEXTS = [
    "=",
    "seed",
    "seed==1",
    "+",
    "~",
    "++seed=3",
    "seed=",
    "@x=1",
    "",
    "a b",
    "=1",
    "data@x=npz",
]
SECONDS = 60  # after which a training is asked to stop
LIMIT = 12 * 2**30  # bytes of address space, so that a huge network does no harm


def make_inputs(folder):
    """Writes two domains of each kind: features, images, a table, folders of images."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    for name in ("a", "b"):
        features = rng.normal(size=(60, 5)).astype("float32") + labels[:, None]
        np.savez(folder / f"{name}.npz", x=features, y=labels)
        images = rng.integers(0, 255, (60, 16, 16, 3)).astype("uint8")
        np.savez(folder / f"{name}_images.npz", x=images, y=labels)
        rows = [",".join(map(str, row)) for row in np.c_[features, labels].tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["p,q,r,s,t,label", *rows]) + "\n")
        for number, (image, label) in enumerate(zip(images[:30], labels[:30], strict=True)):
            file = folder / f"photos/{name}/{label}/{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(file)


def bases(folder):
    """Arguments that keep a command small, by script; the first ones are groups."""
    here = f"{folder}/inputs"
    perceptron = "network=tabular network.backbone.hidden_units=[4]"
    network = "network=cnn network.backbone.filters=[2,2] network.backbone.units=3"
    steps = "trainer.steps=2 trainer.steps_per_epoch=1 trainer.batch_size=8 selection.samples=40"
    files = "data.source={0}/a{1} data.target={0}/b{1}"
    kinds = {
        "npz": f"data=npz {perceptron} {files.format(here, '.npz')}",
        "images": f"data=npz {network} {files.format(here, '_images.npz')}",
        "csv": f"data=csv {perceptron} {files.format(here, '.csv')}",
        "folders": f"data=image_folder {network} data.root={here}/photos data.source=a "
        "data.target=b data.image_size=16",
    }
    tiny = {name: f"{choices} {steps}".split() for name, choices in kinds.items()}
    trial = json.dumps([*tiny["npz"], "selection=default"])
    images = json.dumps(tiny["images"])  # the experiment below augments them
    run = f"run={folder}/case/run"
    small = (
        "input.images=40 input.photo_size=[60,80] input.image_size=16 input.batch_size=8 "
        "input.rounds=1 input.seconds=0.1 jacobian.batch_sizes=[2] jacobian.rounds=1 "
        "jacobian.seconds=0 jacobian.k=3 diagnostics.batch_size=4 diagnostics.few=2 "
        "diagnostics.rounds=1 diagnostics.backbone.filters=[2] diagnostics.backbone.units=2 "
        "packed.rounds=1 ~jacobian.networks.cnn"
    )
    return {
        TRAIN: [[*arguments, "hydra.run.dir=run"] for arguments in tiny.values()],
        "scripts/evaluate.py": [[run]],
        "scripts/diagnose.py": [
            [run, "samples=8", "few=4", f"diagnostics=[{d}]"] for d in DIAGNOSTICS
        ],
        "scripts/export.py": [[run, f"format={name}", "examples=8"] for name in FORMATS],
        "scripts/reproduce.py": [
            [
                "experiments=[mnist_to_usps]",
                "methods=[dann]",
                "seeds=[0]",
                f"overrides={images}",
                "results=results.csv",
            ]
        ],
        "scripts/optimize.py": [
            ["trials=1", "space=['schedule.high=interval(0.1,1.0)']", f"overrides={trial}"]
        ],
        "benchmarks/run.py": [[f"suite={s}", *small.split()] for s in ("jacobian", "diagnostics")],
    }


def keys_of(node, prefix=""):
    """The dotted keys of a config with their values."""
    for name, value in node.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{name}.")


def near(value):
    """Values like one: such that somebody means them."""
    if isinstance(value, bool):
        return [str(not value).lower()]
    if isinstance(value, int | float):
        return [str(value + 1), str(value * 2), str(value / 2), str(value // 2), "1"]
    return [value] if isinstance(value, str) and value.isidentifier() else ["null"]


@functools.cache
def config_of(script, arguments):
    """The config that a script composes of the arguments."""
    return OmegaConf.to_container(composed(*arguments, script=CONFIGS[script]))


@st.composite
def commands(draw, script, choices):
    """A script's small command with one to three odd arguments more."""
    base = list(draw(st.sampled_from(choices)))
    every = keys_of(config_of(script, tuple(base)))
    keys = st.sampled_from([pair for pair in every if pair[0] != "paths.run_dir"])
    values = st.sampled_from(VALUES)

    def changed(pair):
        return st.builds(f"{pair[0]}={{}}".format, st.sampled_from(near(pair[1])))

    kinds = [
        *[keys.flatmap(changed)] * 4,
        st.builds(lambda pair, value: f"{pair[0]}={value}", keys, values),
        st.builds(lambda pair, value: f"{pair[0]}={value}", keys, values),
        st.builds(lambda pair, value: f"+{pair[0]}.more={value}", keys, values),
        st.builds(lambda pair: f"~{pair[0]}", keys),
        st.builds("+{}={}".format, st.text("abc", min_size=1, max_size=4), values),
        st.sampled_from(OF_HYDRA),
        st.sampled_from(TEXTS),
    ]
    if script == TRAIN:
        named = [f"{group}={name}" for group, names in GROUPS.items() for name in [*names, "x"]]
        kinds += [st.sampled_from(named)] * 3 + [
            st.builds("{}={}".format, st.sampled_from(sorted(GROUPS)), values)
        ]
    odd = draw(st.lists(st.one_of(kinds), min_size=1, max_size=3))
    flags = draw(st.sampled_from([[]] * 8 + [None]))
    flags = draw(st.sampled_from(FLAGS)) if flags is None else flags
    # A group that is chosen twice is refused by Hydra, so the odd choice takes the place.
    groups = {one.partition("=")[0] for one in odd} & GROUPS.keys()
    base = [one for one in base if one.partition("=")[0] not in groups]
    return [*flags, *base, *odd]


def drawn(count, folder):
    """So many commands as (script, arguments): half of `train.py`, the others in equal parts."""
    rest = count // 2
    shares = [count - rest, *(len(part) for part in np.array_split(range(rest), len(CONFIGS) - 1))]
    every = bases(folder).items()
    return [
        (script, arguments)
        for (script, choices), share in zip(every, shares, strict=True)
        for arguments in _drawn_of(script, choices, share)
    ]


def _drawn_of(script, choices, count):
    found = {}

    @settings(
        max_examples=4 * count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(commands(script, choices))
    def draw(arguments):
        found[tuple(arguments)] = arguments

    if count:
        draw()
    return list(found.values())[:count]  # once each


def run_script(script, arguments):
    """Runs a script as `python` does; returns the exit status."""
    sys.argv = [str(script), *arguments]
    status = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        status = stop.code or 0
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


PYTHON = """#!{python} -SE
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    told = "\\0".join([os.getcwd(), *sys.argv[1:]]).encode()
    socket.send_fds(server, [len(told).to_bytes(4, "big")], [1, 2])
    server.sendall(told)
    sys.exit(int.from_bytes(server.recv(1), "big"))
"""


def serve(address):
    """Forks for what a script takes for Python: a small program that passes its command on."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        if os.fork():
            return
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
        head, files, _, _ = socket.recv_fds(connection, 4, 2)
        folder, script, *arguments = _exactly(connection, int.from_bytes(head, "big")).split("\0")
        worker = os.fork()
        if worker == 0:
            for number, file in enumerate(files, start=1):
                os.dup2(file, number)
            os.chdir(folder)
            os._exit(run_script(script, arguments))
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        connection.sendall(bytes([status % 256]))
        os._exit(0)


def _exactly(connection, count):
    found = b""
    while len(found) < count:
        found += connection.recv(count - len(found))
    return found.decode()


def child(script, arguments, case, output):
    os.setsid()
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.pop("TF_CPP_MIN_LOG_LEVEL")
    os.environ.update(HOME=str(case / "home"), DANN_CACHE_DIR=str(output / "cache"))
    os.chdir(case / "here")
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    if script.endswith(("reproduce.py", "optimize.py")):
        address = output / "server"
        address.unlink(missing_ok=True)
        serve(address)
        python = output / "python"
        python.write_text(PYTHON.format(python=sys.executable, address=str(address)))
        python.chmod(0o755)
        sys.executable = str(python)
    os._exit(run_script(ROOT / script, arguments))


def start(script, arguments, case, output):
    """Runs a command in a child; returns its exit status and whether it was asked to stop."""
    pid = os.fork()
    if pid == 0:
        try:
            child(script, arguments, case, output)
        finally:
            traceback.print_exc()
            os._exit(99)
    asked, status = False, None
    began = time.monotonic()
    while status is None:
        done, code = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
        waited = time.monotonic() - began
        if waited > SECONDS and not asked:
            asked = True
            os.kill(pid, signal.SIGTERM)
        if waited > 2 * SECONDS and not done:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # the server, too
    return status, asked


def contents(folder):
    """The files of a folder with their digests; folders with None."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def asked_for(arguments, config):
    """The values that a config has in other ways than a command asked for, by key."""
    wrong = {}
    gone = tuple(one[1:].partition("=")[0] for one in arguments if one.startswith("~"))
    sayings = [one for one in arguments if not one.startswith(("-", "~", "hydra"))]
    parsed = OverridesParser.create().parse_overrides(sayings)
    keys = [one.key_or_group for one in parsed]
    for place, one in enumerate(parsed):
        key, value = one.key_or_group, one.value()
        if key in GROUPS or "@" in key or key.startswith(gone) or one.is_sweep_override():
            continue
        replaced = [k for k in keys[place + 1 :] if k == key or key.startswith(f"{k}.")]
        if replaced:
            continue
        if one.input_line.startswith("+") and not one.input_line.startswith("++"):
            wrong[key] = "took it"
            continue
        found = OmegaConf.select(config, key)
        found = OmegaConf.to_container(found) if OmegaConf.is_config(found) else found
        text = isinstance(value, str) and "${" in value
        merged = (
            isinstance(value, dict) and isinstance(found, dict) and value.items() <= found.items()
        )
        if not (text or merged or str(found) == str(value) or found == value):
            wrong[key] = f"asked for {value!r}, has {found!r}"
    return wrong


def judge(script, arguments, status, asked, case, before, output):
    """How a command ended: one word, and what is wrong about it."""
    stdout, stderr = ((output / name).read_text() for name in ("stdout", "stderr"))
    after = contents(case)
    new = sorted(path for path in after if before.get(path, "") != after[path])
    gone = sorted(path for path in before if path not in after)
    drafts = [path for path in new if ".part" in path or path.endswith("run.lock")]
    # TensorFlow Lite tells of its delegate whatever the level of logging is.
    lines = [line for line in stderr.splitlines() if not line.startswith("INFO: ")]
    stderr = "\n".join(lines)
    one_line = len(lines) == 1 and stderr.startswith(("error: ", "package "))  # of `--package`
    if asked:
        stopped = status == 143 and "Traceback" not in stderr
        return ("stopped", "") if stopped else ("badly", f"asked to stop, status {status}")
    usage = status == 2 and stderr.startswith("usage: ") and ": error: " in lines[-1]  # argparse's
    if script != TRAIN and any(one.startswith("hydra.output_subdir=") for one in arguments):
        new = [path for path in new if path.partition("/")[2].partition("/")[0] != "conf"]
    if status in (1, 2) and (one_line or usage) and not new and not gone:
        return "refused", lines[-1]
    if drafts:
        return "badly", f"left {drafts}"
    if status == 1 and one_line and script == TRAIN:
        results = [path for path in new if path.endswith("summary.json")]
        return ("badly", f"left {results}") if results else ("told", stderr)
    if status in (1, 2) and one_line and not script.endswith(("evaluate.py", "benchmarks/run.py")):
        return "told", stderr
    if status or stderr:
        return "badly", f"status {status}, {new[:9]}"
    if any(one.startswith("-") and one not in ("-m", "--run") for one in arguments):
        return ("badly", f"left {new}") if new else ("result", "")
    added = [one for one in arguments if one[:1] == "+" and not one.startswith(("++", "+hydra"))]
    # What a later argument replaces is not in the config.
    if script != TRAIN and added:
        return "badly", f"took {added}"
    if script == TRAIN:
        configs = [path for path in new if path.endswith(".hydra/config.yaml")]
        if not configs:
            return "badly", f"no config of a run in {new[:9]}"
        for path in configs:
            folder = (case / path).parent.parent
            if not (folder / "summary.json").is_file():
                return "badly", f"no summary in {folder}"
            wrong = asked_for(arguments, OmegaConf.load(case / path))
            if wrong:
                return "badly", str(wrong)
    elif not (new or stdout):
        return "badly", "nothing came of it"
    return "result", ""


def main(folder, count, part="1/1"):
    folder.mkdir(parents=True, exist_ok=True)
    case, output, inputs = folder / "case", folder / "output", folder / "inputs"
    for place in (output, inputs):
        place.mkdir(exist_ok=True)
    make_inputs(inputs)
    every = drawn(count, folder)
    (case / "here").mkdir(parents=True)
    base = bases(folder)[TRAIN][0]
    extra = ["trainer.oracle_curve=true", f"hydra.run.dir={folder}/finished"]
    if start(TRAIN, [*base, *extra], case, output) != (0, False):
        sys.exit((output / "stderr").read_text())
    number, parts = map(int, part.split("/"))
    for script, arguments in every[number - 1 :: parts]:
        shutil.rmtree(case, ignore_errors=True)
        for place in ("here", "home"):
            (case / place).mkdir(parents=True)
        shutil.copytree(folder / "finished", case / "run")
        before = contents(case)
        status, asked = start(script, arguments, case, output)
        end, about = judge(script, arguments, status, asked, case, before, output)
        told = {"script": script, "arguments": arguments, "end": end, "about": about}
        if end == "badly":
            told["stderr"] = (output / "stderr").read_text()[-3000:]
        print(json.dumps(told), flush=True)
    shutil.rmtree(case)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), *sys.argv[3:])
