"""What a command says if the backend that it asks for cannot train."""

import subprocess
import sys

import pytest

CALL = """
import dann.config.start_backend as it
try:
    it.start_backend()
except it.ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        ("jax", "The backend jax needs its package: pip install 'dann[jax]'"),
        ("torch", "The backend torch needs its package: pip install 'dann[torch]'"),
        ("tensorflow", "The backend tensorflow needs its package: pip install tensorflow"),
        ("numpy", "KERAS_BACKEND must be one of tensorflow, jax, torch. Received: numpy"),
        ("openvino", "KERAS_BACKEND must be one of tensorflow, jax, torch. Received: openvino"),
        ("unknown", "KERAS_BACKEND must be one of tensorflow, jax, torch. Received: unknown"),
    ],
)
def test_a_backend_that_cannot_train_is_told(backend, told, tmp_path, monkeypatch):
    if backend in ("jax", "torch", "tensorflow"):
        (tmp_path / backend).mkdir()
        missing = f"raise ModuleNotFoundError(\"No module named '{backend}'\", name='{backend}')"
        (tmp_path / backend / "__init__.py").write_text(missing)
    monkeypatch.setenv("DANN_LAZY_IMPORT", "1")  # as the scripts do
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    said = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, check=True)
    assert said.stdout.startswith(told)
    assert said.stdout.count("\n") == 1
