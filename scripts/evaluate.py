"""Evaluates a finished run: accuracies, a table of the classes and the confusion matrix.

python scripts/train.py hydra.run.dir=run
python scripts/evaluate.py run=run                     on the test sets of the run
python scripts/evaluate.py run=run target=new_photos   on new target data
python scripts/evaluate.py run=sweep/recommended       the recommended classifier of a sweep
python scripts/evaluate.py run=run label=50            draws 50 target examples to label by hand
python scripts/evaluate.py run=run labels_file=run/label_50.csv   accuracy on the labeled examples

`target` is a folder of images, with or without class folders, a `.npz` file or a `.csv` file, of
the same kind as the target of the run. Its predicted classes are written to predictions_<name>.csv
in the run directory. The predictions.csv of the training does not change. If the data of the run
have changed, the script ends with an error, because the run may have trained on test examples.

The script repeats the alignment of the domains that training measured on its own data.

`label` writes examples of the predictions to label_<number>.csv in the run directory, with the same
proportions of predicted classes and an empty column `label`. An existing file is never replaced.
`labels_file` is the completed file; the script compares the labels with the predictions of the run
and prints the accuracy with Wilson's 95% interval.

For a run with `trainer.oracle_curve=true`, the script also lists the epoch that each label-free
score selects. The regret of a score is the best target accuracy of all epochs minus the target
accuracy of the selected epoch.
"""

import pathlib

import environment  # noqa: F401

from dann.config.errors import ConfigError
from dann.config.script import format_command, script

# Readers that can load a new target with the scaling and the classes of a run.
NEW_TARGET_READERS = "dann.data.image_folder", "dann.data.npz", "dann.data.csv_table"


@script("evaluate")
def main(cfg):
    from dann.adaptation.prediction import predict
    from dann.config.building import build_domains
    from dann.config.runs import load_run_config
    from dann.training import evaluate_run
    from dann.training.evaluation import compute_accuracies, predict_target, to_predictions
    from dann.training.overrides import format_argument
    from dann.training.report import describe_alignment
    from dann.training.run_directory import RunDirectory

    if sum(value is not None for value in (cfg.target, cfg.label, cfg.labels_file)) > 1:
        raise ConfigError(
            "Expected at most one of target=, label= and labels_file=. Received: more than one"
        )
    run = RunDirectory(cfg.run)
    if cfg.label is not None:
        path = evaluate_run.write_sample(run, cfg.label)
        command = f"{format_command('evaluate')} {format_argument('run', run)}"
        print(f"Written to {path}: fill in the column `label`")
        print(f"Next: {command} {format_argument('labels_file', path)}")
        return
    data_run = evaluate_run.find_data_run(run)
    if cfg.labels_file is not None:
        class_names = data_run.summary().get("class_names")
        if class_names is None:
            class_names = [*map(str, range(run.classifier().output_shape[-1]))]
        print(evaluate_run.measure_labeled_accuracy(run, cfg.labels_file, class_names))
        baseline = RunDirectory(run.baseline)
        if baseline.predictions_file.is_file():
            accuracy = evaluate_run.measure_labeled_accuracy(baseline, cfg.labels_file, class_names)
            print(f"source only: {accuracy}")
        return
    classifier = run.classifier()
    run_cfg = load_run_config(data_run.path, cfg.paths)
    domain_names = ["source", "target"]
    if cfg.target is not None:
        reader = run_cfg.data["_target_"]
        if reader not in NEW_TARGET_READERS:
            raise ConfigError(
                "target= requires a run with data=image_folder, npz or csv. "
                f"Received: a run with {reader}"
            )
        path, is_folder = pathlib.Path(cfg.target), reader == "dann.data.image_folder"
        if path.exists() and path.is_dir() != is_folder:
            expected, received = ("folder of images", "file") if is_folder else ("file", "folder")
            raise ConfigError(
                f"Expected target= to be a {expected}, like the target of the run. "
                f"Received: {path}, a {received}"
            )
        run.check_predictions(cfg.target)
        run_cfg.data["target_new"] = cfg.target
        domain_names = ["target"]
    domains = build_domains(run_cfg, data_run.standardizer(), is_trained=True)
    data_run.check_data(domains.identity)
    if domains.nuisances and cfg.target is None:
        # A nuisance table has a single test set, which `source_test` and `target_test` share.
        domain_names = ["source"]
    class_names = domains.class_names or [str(number) for number in range(domains.num_classes)]
    for domain in domain_names:
        inputs, labels = getattr(domains, f"{domain}_test")
        print(f"{domain}: {cfg.target or getattr(domains, domain)}")
        if labels is None:
            measure = "MAE" if domains.is_regression else "accuracy"
            print(f"{domain} {measure}: unknown (no labels)")
            continue
        predicted = to_predictions(predict(classifier, inputs))
        if domains.is_regression:
            errors = compute_accuracies(labels, predicted)
            print("mean absolute error {mae:.6g}, R2 {r2:.3f}".format(**errors))
        else:
            print(evaluate_run.format_class_report(labels, predicted, class_names))
    if run.is_finished() and "probe/low" in (row := run.summary()):
        print(describe_alignment(row))
    if cfg.target is not None:
        table = predict_target(classifier, domains, ["test"]).drop(columns="split")
        print(f"Predicted {evaluate_run.count_classes(table)}")
        print(f"Written to {run.write_predictions(table, cfg.target)}")
    elif run.oracle_file.is_file():
        print("Epoch that each score selects; the accuracies use target labels (oracle)")
        print(evaluate_run.tabulate_regret(cfg.run).round(4).to_string())


if __name__ == "__main__":
    main()
