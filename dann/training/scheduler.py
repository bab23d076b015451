"""Which of several processes this is, as given or as a scheduler tells."""

from typing import Any

from dann.checks import check_integer
from dann.training.process_group import PATIENCE_SECONDS


def processes_of(
    coordinator: str | None, num_processes: int | None, process_id: int | None
) -> tuple[str, int, int]:
    """Returns the address of process 0, the number of processes, and which of them this is.

    What is `None` is as JAX finds it in the environment of SLURM, Open MPI or Kubernetes.

    Raises:
        ValueError: If one is neither given nor found, or cannot be.
    """
    return _checked(*_detected(coordinator, num_processes, process_id))


def _detected(coordinator: Any, num_processes: Any, process_id: Any) -> Any:
    """The three as given; what is not, as JAX finds it in a scheduler's environment."""
    if None not in (coordinator, num_processes, process_id):
        return coordinator, num_processes, process_id
    try:
        from jax._src.clusters import ClusterEnv  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError(
            "Several machines need JAX: install the extra `jax` and set KERAS_BACKEND=jax. "
            "Received: distribution=multi_host without JAX"
        ) from error
    # Of these, JAX has no public function; the first three results are those that it lacked.
    find = ClusterEnv.auto_detect_unset_distributed_params
    try:
        return find(coordinator, num_processes, process_id, None, None, int(PATIENCE_SECONDS))[:3]
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            "The scheduler's environment must name the processes, or distribution.coordinator, "
            f"num_processes and process_id. Received: {error}"
        ) from error


def _checked(coordinator, num_processes, process_id):
    host, _, port = str(coordinator or "").rpartition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(
            "distribution.coordinator must be the address of process 0, host:port, where no "
            f"scheduler tells it. Received: {coordinator!r}"
        )
    for name, value in (("num_processes", num_processes), ("process_id", process_id)):
        if value is None:
            raise ValueError(
                f"distribution.{name} must be given, where no scheduler tells it. Received: None"
            )
    check_integer("distribution.num_processes", num_processes, 1)
    check_integer("distribution.process_id", process_id, 0, num_processes - 1)
    return coordinator, num_processes, process_id
