"""Diagnoses a run: its reversal, the alignment of its features, and the flow of gradients.

python scripts/train.py hydra.run.dir=run
python scripts/diagnose.py run=run
python scripts/diagnose.py run=run full=true                             all diagnostics
python scripts/diagnose.py run=run 'diagnostics=[certify,jacobians]'     some diagnostics

The script writes diagnosis.json and report.html into the run directory. The report is one page
that needs no network. The page starts with a verdict and what to do.
"""

import functools

import environment  # noqa: F401

from dann.config.script import script


@script("diagnose")
def main(cfg):
    from dann.config.building import build_domains
    from dann.config.runs import load_run_config
    from dann.diagnostics import DIAGNOSTICS
    from dann.training import RunDirectory
    from dann.training.diagnose_run import diagnose_run, write_diagnosis

    names = list(DIAGNOSTICS) if cfg.full else cfg.diagnostics
    run = RunDirectory(cfg.run)
    model = run.model()
    domains = build_domains(load_run_config(cfg.run, cfg.paths))
    run.check_data(domains.identity)
    print_line = functools.partial(print, flush=True)
    diagnosis = diagnose_run(
        model, domains, names, cfg.samples, cfg.step_samples, cfg.seed, print_line
    )
    report = write_diagnosis(diagnosis, run)
    print(f"\n{diagnosis.verdict}\n\nWritten to {report}")


if __name__ == "__main__":
    main()
