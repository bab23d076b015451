"""The trained model that a second stage goes on from."""

import pathlib
from typing import Any

from dann.config.instantiation import ConfigError


def start_from_teacher(model: Any, path: str) -> Any:
    """Lets a second stage take over the weights of the model that `method.teacher` names.

    Args:
        model: Model of a second stage, such as `dann.DIRTT`.
        path: A run directory, whose `classifier.keras` is taken, or a `.keras` file.

    Returns:
        The model.

    Raises:
        ConfigError: If the method is no second stage, or the path is neither, or the file cannot be
            read.
        ValueError: If the trained model is of another network.
    """
    import keras

    if not hasattr(model, "start_from"):
        raise ConfigError(
            f"Only a second stage has a teacher. Received: method.teacher={path} for a "
            f"`{type(model).__name__}`"
        )
    file = pathlib.Path(path)
    if file.is_dir():
        file = file / "classifier.keras"
    if file.suffix != ".keras" or not file.is_file():
        raise ConfigError(
            "method.teacher must be the directory of a finished run, or a .keras file. "
            f"Received: {path}"
        )
    try:
        trained = keras.models.load_model(file, compile=False)
    except Exception as error:  # whatever is wrong with the file
        raise ConfigError(f"{file} must hold a Keras model. Received: {error}") from error
    return model.start_from(trained)
