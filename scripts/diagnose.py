"""Says whether a run's adversary is alive, who is winning, and what the derivatives tell.

python scripts/train.py hydra.run.dir=run
python scripts/diagnose.py run=run
python scripts/diagnose.py run=run full=true                          Jacobians and the game too
python scripts/diagnose.py run=run 'diagnostics=[certify,discriminator_vs_probe]'     some of it

It writes diagnosis.json, figures/diagnosis_*.svg and report.html into the run directory. The report
is one page that needs no network, and opens with a verdict and what to do.
"""

import environment  # noqa: F401

from dann.config.building import build_domains
from dann.config.runs import load_run_config
from dann.config.script import script
from dann.diagnostics import DIAGNOSTICS
from dann.training import RunDirectory
from dann.training.diagnose_run import diagnose_run, write_diagnosis


@script("diagnose")
def main(cfg):
    chosen = list(DIAGNOSTICS) if cfg.full else cfg.diagnostics
    run = RunDirectory(cfg.run)
    model = run.model()
    domains = build_domains(load_run_config(cfg.run, cfg.paths))
    found = diagnose_run(model, domains, chosen, cfg.samples, cfg.step_samples, cfg.seed, tell)
    report = write_diagnosis(found, run)
    print(f"\n{found.verdict}\n\nWritten to {report}")


def tell(line):
    print(line, flush=True)


if __name__ == "__main__":
    main()
