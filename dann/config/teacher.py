"""The trained model that a second stage goes on from."""

import pathlib
from typing import Any

from dann.config.instantiation import ConfigError
from dann.training.run_directory import RunDirectory, load_model


def start_from_teacher(model: Any, path: str) -> Any:
    """Gives a second stage the weights of the model that `method.teacher` names.

    Args:
        model: Model of a second stage, such as `dann.DIRTT`.
        path: A run directory, whose classifier is taken, or a `.keras` file.

    Returns:
        The model.

    Raises:
        ConfigError: If the method is not a second stage, or the path is neither.
        ValueError: If the file cannot be read, or the trained model is of another network.
    """
    if not hasattr(model, "start_from"):
        raise ConfigError(
            f"Only a second stage has a teacher. Received: method.teacher={path} for a "
            f"`{type(model).__name__}`"
        )
    file = pathlib.Path(path)
    if file.is_dir():
        file = RunDirectory(file).classifier_file
    if file.suffix != ".keras" or not file.is_file():
        raise ConfigError(
            "method.teacher must be the directory of a finished run, or a .keras file. "
            f"Received: {path}"
        )
    return model.start_from(load_model(file, compile=False))
