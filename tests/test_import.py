"""What `import dann` loads, and what Keras knows after it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.tensorflow

WITHOUT_KERAS = """
import sys
from dann import deployment, schedules
assert deployment.load
assert "keras" not in sys.modules and "tensorflow" not in sys.modules
"""
BROKEN_AT_FIRST = """
import pathlib
pathlib.Path("keras.py").write_text("raise ImportError('broken')")
try:
    import keras
except ImportError as error:
    assert str(error) == "broken"
pathlib.Path("keras.py").unlink()
sys.path_importer_cache.clear()
"""
REGISTERED = """
import keras
for name in ("GradientReversal", "GaninSchedule", "DANN"):
    assert keras.saving.get_registered_object(f"dann>{name}").__name__ == name
"""


@pytest.mark.parametrize(
    "program",
    [
        WITHOUT_KERAS + BROKEN_AT_FIRST + REGISTERED + "assert schedules.GaninSchedule(5)(0) == 0",
        "import keras\nimport dann" + REGISTERED,
    ],
    ids=["dann first", "keras first"],
)
def test_keras_knows_every_class_once_both_are_imported(program, tmp_path):
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
