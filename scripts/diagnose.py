"""Says whether a run's adversary is alive, who is winning, and what the derivatives tell.

python scripts/train.py hydra.run.dir=run
python scripts/diagnose.py run=run
python scripts/diagnose.py run=run 'diagnostics=[certificate,winning]'     some of it, sooner

It writes diagnosis.json, figures/diagnosis_*.svg and report.html into the run directory. The report
is one page that needs no network, and opens with a verdict.
"""

import os

os.environ.setdefault("DANN_LAZY_IMPORT", "1")

from dann import config  # noqa: E402


@config.command("diagnose")
def main(cfg):
    of_run = config.config_of_run(cfg.run, cfg.paths)

    from dann.training import diagnosis

    chosen = None if cfg.diagnostics is None else list(cfg.diagnostics)
    diagnosis.check_choices(chosen, cfg.samples, cfg.few)
    diagnosis.check_writable(cfg.run)
    model = diagnosis.load_model(cfg.run)
    domains = config.build_domains(of_run)
    yield

    found = diagnosis.diagnose(model, domains, chosen, cfg.samples, cfg.few, cfg.seed)
    report = diagnosis.write(found, cfg.run)
    print(diagnosis.summary_of(found))
    print(f"Written to {report}")
    return found


if __name__ == "__main__":
    main()
