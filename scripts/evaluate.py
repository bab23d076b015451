"""Evaluates a finished run: accuracy, a table of the classes and the confusion matrix.

python scripts/train.py hydra.run.dir=run
python scripts/evaluate.py run=run                     on the run's test sets
python scripts/evaluate.py run=run target=new_photos   on other data of the target's kind

`target` is a folder of images, with class folders or not, a `.npz` file or a `.csv` file, as the
target of the run. The predicted classes go to predictions.csv in the run directory, or, of another
target, to predictions_<name>.csv.

For a run with `trainer.oracle_curve=true` it also lists what each label-free score would have
chosen. The regret of a score is the best target accuracy of all epochs minus that of the epoch
which the score puts first.
"""

import pathlib

import environment  # noqa: F401

from dann.adaptation.prediction import predict
from dann.config.building import ConfigError, build_domains
from dann.config.runs import load_run_config
from dann.config.script import script
from dann.training import RunDirectory
from dann.training.evaluate_run import format_class_report, tabulate_regret
from dann.training.evaluation import predict_target

TAKES_NEW = {f"dann.data.{reader}" for reader in ("image_folder", "npz", "csv_table")}


@script("evaluate")
def main(cfg):
    run = RunDirectory(cfg.run)
    classifier = run.classifier()
    made = load_run_config(cfg.run, cfg.paths)
    tests, splits, name = ["source", "target"], ["train", "test"], ""
    if cfg.target is not None:
        if made.data["_target_"] not in TAKES_NEW:
            raise ConfigError(
                "target= needs a run on data=image_folder, npz or csv. "
                f"Received: a run on {made.data['_target_']}"
            )
        made.data["target_new"] = cfg.target
        tests, splits, name = ["target"], ["test"], pathlib.Path(cfg.target).absolute().stem
    domains = build_domains(made)
    if domains.nuisances and cfg.target is None:
        tests = ["source"]  # a table is both domains
    names = domains.class_names or [str(number) for number in range(domains.num_classes)]
    for domain in tests:
        inputs, labels = getattr(domains, f"{domain}_test")
        print(f"{domain}: {cfg.target or getattr(domains, domain)}")
        if labels is None:
            print(f"{domain} accuracy: unknown (no labels)")
        else:
            print(format_class_report(labels, predict(classifier, inputs).argmax(axis=1), names))
    print(f"Written to {run.write_predictions(predict_target(classifier, domains, splits), name)}")
    if cfg.target is None and run.oracle_file.is_file():
        print("What each score would have chosen; the accuracies are an oracle's")
        print(tabulate_regret(cfg.run).round(4).to_string())


if __name__ == "__main__":
    main()
