"""Says whether a run's adversary is alive, who is winning, and what the derivatives tell.

python scripts/train.py hydra.run.dir=run
python scripts/diagnose.py run=run
python scripts/diagnose.py run=run 'diagnostics=[certificate,winning]'     some of it, sooner

It writes diagnosis.json, figures/diagnosis_*.svg and report.html into the run directory. The report
is one page that needs no network, and opens with a verdict.
"""

import os
import signal

os.environ.setdefault("DANN_LAZY_IMPORT", "1")
signal.signal(signal.SIGINT, signal.SIG_DFL)  # an import may swallow a KeyboardInterrupt

from dann import config  # noqa: E402
from dann.training import RunDirectory  # noqa: E402


def prepare(cfg):
    from dann.training.diagnose_run import check_choices, model_of_run

    chosen = None if cfg.diagnostics is None else list(cfg.diagnostics)
    settings = chosen, cfg.samples, cfg.few
    check_choices(*settings)
    run = RunDirectory(cfg.run)
    of_run = config.config_of_run(cfg.run, cfg.paths)
    model = model_of_run(run)
    return run, model, config.build_domains(of_run), (*settings, cfg.seed)


def work(prepared):
    from dann.training.diagnose_run import diagnose_run, write_diagnosis

    run, model, domains, settings = prepared
    found = diagnose_run(model, domains, *settings)
    report = write_diagnosis(found, run)
    print(f"verdict: {found.verdict.name}", *found.verdict.reasons, sep="\n  ")
    print(f"Written to {report}")


if __name__ == "__main__":
    config.run_script("diagnose", prepare, work)
