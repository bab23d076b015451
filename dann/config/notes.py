"""What a page of results says beyond its numbers."""

import pathlib

from omegaconf import DictConfig, OmegaConf

from dann.config.instantiation import ConfigError


def notes_beside(results: str | pathlib.Path) -> dict[str, str]:
    """Reads the notes on the experiments in a results file.

    They lie beside it, `results.yaml` beside `results.csv`: what was seen in those runs is not said
    of others.

    Args:
        results: The results file.

    Returns:
        Paragraphs by the name of the experiment; none if there is no such file.

    Raises:
        ConfigError: If the file does not map names to text.
    """
    path = pathlib.Path(results).with_suffix(".yaml")
    if not path.is_file():
        return {}
    notes = OmegaConf.load(path)
    found = OmegaConf.to_container(notes) if isinstance(notes, DictConfig) else None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ConfigError(f"{path} must map names of experiments to text. Received: {found}")
    return {str(name): text for name, text in found.items()}
