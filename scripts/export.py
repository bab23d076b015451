"""Exports the classifier of a run to another format, and compares the export with the original.

python scripts/export.py run=<run directory> format=packed        1-bit weights: dann.deployment
python scripts/export.py run=<run directory> format=c             one C file, for a microcontroller
python scripts/export.py run=<run directory> format=saved_model   TensorFlow Serving
python scripts/export.py run=<run directory> format=litert        LiteRT, formerly TensorFlow Lite
python scripts/export.py run=<run directory> format=onnx          ONNX Runtime

The file is written to `export/` in the run directory, if its outputs equal the outputs of the
classifier on inputs of the target's test set.
"""

import environment  # noqa: F401

from dann.config.script import script


@script("export")
def main(cfg):
    import json

    import numpy as np

    from dann.config.building import build_domains
    from dann.config.runs import load_run_config
    from dann.deployment.exports import FORMATS, check_packages, export
    from dann.training import evaluate_run
    from dann.training.run_directory import RunDirectory

    check_packages(name := cfg.format.value)
    run = RunDirectory(cfg.run)
    data_run = evaluate_run.find_data_run(run)
    classifier = run.classifier()
    domains = build_domains(load_run_config(data_run.path, cfg.paths), is_trained=True)
    inputs = domains.target_test[0]
    count = min(cfg.examples, len(inputs))
    rows = np.linspace(0, len(inputs) - 1, count).astype(int)
    suffix = FORMATS[name][0]
    path = run.exports / (f"classifier{suffix}" if suffix else name)
    run.manifest.check([path if suffix else path / "saved_model.pb"])
    report = export(classifier, path, name, np.asarray(inputs[rows]), cfg.tolerance)
    if name == "c":
        units = "from 0 to 255" if inputs.dtype == np.uint8 else "scaled as in training"
        files = {"encoding.csv": domains.encoding, "standardizer.json": domains.standardizer}
        if used := [name for name, value in files.items() if value is not None]:
            units = f"computed with {' and '.join(used)} of the run"
        names = json.dumps(domains.class_names or "unnamed")
        names = names.replace("/", r"\/")  # no end of the comment
        facts = f"/* Input: {inputs.shape[1:]}, values {units}.\n   Classes, from 0: {names}. */\n"
        report["bytes"] = path.write_text(facts + path.read_text())
    # A run that starts again deletes the files in the manifest.
    run.manifest.record(file for file in (path, *path.rglob("*")) if file.is_file())
    print(
        f"Compared on {report['examples']} target examples: "
        f"{report['examples'] - report['different']} get the same class; logits differ by at most "
        f"{report['difference']:.2g}\nWritten to {report['path']}: {report['bytes']:,} bytes"
    )


if __name__ == "__main__":
    main()
