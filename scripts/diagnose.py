"""Diagnoses a run: its reversal, the alignment of its features, and the flow of gradients.

python scripts/train.py hydra.run.dir=run
python scripts/diagnose.py run=run
python scripts/diagnose.py run=run full=true                             all diagnostics
python scripts/diagnose.py run=run 'diagnostics=[certify,sharpness]'     some diagnostics

The script writes diagnosis.json, figures/diagnosis_*.svg and report.html into the run directory.
The report is one page that needs no network. The page starts with a verdict and what to do.
"""

import functools

import environment  # noqa: F401

from dann.config.errors import ConfigError
from dann.config.script import format_command, script


@script("diagnose")
def main(cfg):
    import keras

    from dann.adaptation import TargetOnly
    from dann.config.building import build_domains
    from dann.config.runs import load_run_config
    from dann.diagnostics.catalogue import DIAGNOSTICS
    from dann.diagnostics.check import QUICK, Diagnosis, measure
    from dann.diagnostics.verdict import verdict
    from dann.training.diagnose_run import write_diagnosis
    from dann.training.evaluate_run import find_data_run
    from dann.training.overrides import format_argument
    from dann.training.run_directory import RunDirectory

    names = cfg.diagnostics or QUICK
    if cfg.full:
        names = list(DIAGNOSTICS)
    run = RunDirectory(cfg.run)
    if run.classifier_file.is_file() and not run.config_file.is_file():
        raise ConfigError(
            f"Expected the directory of a run. Received: {run}, which contains only a classifier. "
            f"Diagnose a run, such as run={find_data_run(run)}"
        )
    model = run.model()
    domains = build_domains(load_run_config(cfg.run, cfg.paths), is_trained=True)
    run.check_data(domains.identity)
    domains = domains.oracle() if isinstance(model, TargetOnly) else domains
    # Without repetitions, by which a probe would know held-out examples from its training.
    batch = domains.batches(1, cfg.seed).take(cfg.samples)
    count = len(keras.tree.flatten(batch[0]["target"])[0])
    print_line = functools.partial(print, flush=True)
    measurements, skip_reasons = measure(model, batch, names, cfg.step_samples, print_line)
    summary = run.summary() if run.is_finished() else {}
    measurements |= {k: summary[k] for k in ("target/accuracy", "target/mae") if k in summary}
    metadata = {
        "method": type(model).__name__,
        "source": domains.source,
        "target": domains.target,
        "step": int(model.optimizer.iterations),
        "examples of each domain": count,
    }
    diagnosis = Diagnosis(verdict(measurements), measurements, skip_reasons, metadata)
    report = write_diagnosis(diagnosis, run)
    data = f"{count} training examples per domain; the training probed held-out source examples"
    data += f" ({summary['probe/accuracy']:.0%})" if "probe/accuracy" in summary else ""
    print(f"\n{diagnosis.verdict}\n\nMeasured on {data}\nWritten to {report}")
    if domains.target_test[1] is None and not domains.nuisances and not domains.is_regression:
        print(f"Next: {format_command('evaluate')} {format_argument('run', run)} label=50")


if __name__ == "__main__":
    main()
