"""What each label-free score would have chosen in a run, beside the oracle."""

import os

from dann.selection import Evaluation, evaluate
from dann.selection.regret import NOT_COMPUTED
from dann.training.run_directory import RunDirectory


def evaluate_run(directory: str | os.PathLike) -> Evaluation:
    """Returns what choosing an epoch of a finished run by each score would have cost.

    Args:
        directory: A run directory with `selection/...` columns among its metrics and with an
            oracle curve, which `trainer.oracle_curve=true` writes.

    Returns:
        `scores`, for each score: `step`, the end of the epoch that it rates highest; its `score`
        and target `accuracy` there; and `regret`, the best accuracy of all epochs minus that one.
        `left_out`: the reason for each score of `dann.selection.SCORES` that is missing.

    Raises:
        FileNotFoundError: If a file is not there.
        ValueError: If there are no scores, or the files are not of the same epochs.
    """
    run = RunDirectory(directory)
    metrics, oracle = run.metrics(), run.oracle_curve()
    scores = {
        name.removeprefix("selection/"): [float(value) for value in values]
        for name, values in metrics.items()
        if name.startswith("selection/")
    }
    if not scores:
        raise ValueError(
            f"Expected columns `selection/...` in {run.metrics_file}; `selection.scores` "
            f"names them. Received: {list(metrics)}"
        )
    found = evaluate(scores, [float(value) for value in oracle["target/accuracy"]])
    chosen = {
        name: {
            "step": int(oracle["step"][int(of["choice"])]),
            "score": scores[name][int(of["choice"])],
            "accuracy": of["accuracy"],
            "regret": of["regret"],
        }
        for name, of in found.scores.items()
    }
    left_out = {
        name: f"{why}; train with selection=all" if why == NOT_COMPUTED else why
        for name, why in found.left_out.items()
    }
    return Evaluation(chosen, left_out)


def evaluation_table(evaluation: Evaluation) -> str:
    """Formats what `evaluate_run` returns, sorted by regret; missing scores come last."""
    lines = [f"{'score':<20}{'chosen step':>12}{'score':>12}{'target (oracle)':>18}{'regret':>10}"]
    for name, of in sorted(evaluation.scores.items(), key=lambda item: item[1]["regret"]):
        lines.append(
            f"{name:<20}{of['step']:>12,}{of['score']:>12.4f}{of['accuracy']:>18.1%}"
            f"{100 * of['regret']:>+10.1f}"
        )
    lines += [f"{name:<20}left out: {why}" for name, why in evaluation.left_out.items()]
    return "\n".join(lines)
