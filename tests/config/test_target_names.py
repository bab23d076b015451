"""A target is refused by its name only if its group may not name it."""

import pathlib
import resource
import subprocess
import sys

import pytest

from dann.config.allowed_targets import GROUPS
from dann.config.target_names import is_possible, registered_names

ROOT = pathlib.Path(__file__).parents[2]
REFUSED = [
    "network.backbone.units=-3",
    "network.backbone.filters=[8,0]",
    "network.label_head.hidden_units=[-1]",
    "sead=1",
    "seed=x",
    "method=dan",
    "paths.data_dir=/nowhere",
    "trainer.epochs=0",
    "trainer.batch_size=0",
    "trainer.steps=150",
    "trainer.jit_compile=fast",
    "seed=-1",
    "selection.scores=[none_such]",
    "selection.samples=-1",
    "selection.rank_by=none_such",
    "selection.keep=dev",
    "distribution.kind=none_such",
    "+distribution.foo=1",
    "experiment=none_such",
    "data._target_=dann.data.none_such",
    "network.backbone._target_=dann.networks.no_backbone",
    "schedule._target_=dann.schedules.Ganin",
    "method._target_=dann.DAN",
    "optimizer._target_=keras.optimizers.Sgd",
    "optimizer._target_=keras.layers.Dense",
    "optimizer._target_=keras.utils.get_file",
    "+callbacks.stop._target_=keras.callbacks.EarlyStop",
    "+augmentation.one._target_=keras.layers.Lambda",
    "+regularizers.one._target_=dann.None",
    "method.strength=-1",
    "method.passes=sometimes",
    "schedule.gamma=-1",
    "optimizer.momentum=x",
    "network.backbone.dropout=much",
    "network.backbone.filters=3",
    "optimizer.momentum=-1",
    "+optimizer.foo=1",
    "+network.backbone.foo=1",
    "+schedule.foo=1",
    "optimizer.learning_rate=-1",
    "+optimizer.ema_momentum=2 +optimizer.use_ema=true",
    "trainer.precision=float7",
    "data=csv data.source=/nope.csv data.target=/nope.csv",
    "data=npz data.sources=[/nope.npz] data.target=/nope.npz",
    "data=image_folder data.root=/nope data.source=a data.target=b",
    "data.cache_dir=5",
    "+callbacks.x.y=1",
    "+regularizers.x.y=1",
    "+augmentation.sorce=[]",
    "+method.foo=1",
    "+augmentation.source=[{_target_:keras.layers.RandomFlip,foo:1}]",
    "network=keras_application network.name=ResNet5",
    "network=keras_application network.weights=imagnet",
    "method=dirt_t method.teacher=/nope",
    "target_labelled=-1",
    "+callbacks.x._target_=keras.callbacks.CSVLogger +callbacks.x.filename=/nope/x.csv",
]


def cpu_seconds(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, done


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.tensorflow
def test_every_allowed_class_is_possible_by_its_public_name(group):
    pytest.importorskip("tensorflow")
    import keras

    import dann
    from dann import adaptation, data, diagnostics, layers, networks, optimizers, schedules
    from dann.config.allowed_targets import allowed

    families = (
        *(adaptation, data, diagnostics, layers, networks, optimizers, schedules, dann, keras),
        *(keras.layers, keras.initializers, keras.regularizers, keras.constraints, keras.losses),
        *(keras.optimizers, keras.optimizers.schedules, keras.callbacks),
    )
    things = {id(thing): thing for thing in allowed(group)}
    names = {
        f"{module.__name__}.{name}"
        for module in families
        for name in dir(module)
        if id(getattr(module, name)) in things
    }
    assert names
    assert {name for name in names if not is_possible(name, group)} == set()


@pytest.mark.tensorflow
def test_the_registered_scores_are_found_without_keras():
    pytest.importorskip("tensorflow")
    from dann.selection import SCORES

    assert registered_names("selection", "SCORES") == list(SCORES)


@pytest.mark.parametrize(
    ("script", "override"),
    [
        *(("train", override) for override in REFUSED),
        *((script, "run=/nope") for script in ("diagnose", "evaluate", "export")),
    ],
)
def test_a_refused_override_imports_no_backend(script, override, tmp_path):
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['scripts/{script}.py', *{override.split()}, 'hydra.run.dir={tmp_path}/run']\n"
        f"try:\n    runpy.run_path('scripts/{script}.py', run_name='__main__')\n"
        "except SystemExit as end:\n    print('status', end.code)\n"
        "print(sorted({'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules)))\n"
    )
    _, done = cpu_seconds("-c", code)
    assert done.stdout.splitlines() == ["status 1", "[]"], done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert "Callback" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("override", "most"),  # CPU seconds, where `import hydra` takes 0.15
    [("--help", 0.6), ("method._target_=dann.DAN", 0.8), ("method.strength=-1", 0.8)],
)
def test_what_needs_no_backend_takes_few_times_the_cpu_time_of_hydra(override, most):
    turns = [
        (cpu_seconds("-c", "import hydra")[0], cpu_seconds("scripts/train.py", override)[0])
        for _ in range(5)
    ]
    hydra, spent = map(min, zip(*turns, strict=True))
    assert spent / hydra < most / 0.15
