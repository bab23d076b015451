import pytest

from dann.diagnostics import Diagnosis, verdict
from dann.training import RunDirectory
from dann.training.diagnose_run import write_diagnosis

PROBE = {"probe/accuracy": 0.7, "probe/low": 0.6, "probe/high": 0.8}
GAME = {"game/eigenvalues/real": [1.0, 2.0], "game/eigenvalues/imag": [0.5, 0.0]}


@pytest.mark.parametrize("name", ["report.html", "diagnosis.json", "figures/diagnosis_probe.svg"])
def test_a_diagnosis_replaces_no_file_of_others(tmp_path, name):
    (tmp_path / "figures").mkdir()
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"Received: .*{name}, which no run wrote"):
        write_diagnosis(Diagnosis(verdict(PROBE), PROBE), RunDirectory(tmp_path))
    assert [path.name for path in tmp_path.rglob("*.*")] == [name.rpartition("/")[2]]


def test_later_diagnosis_replaces_files_of_an_earlier_one(tmp_path):
    run = RunDirectory(tmp_path)
    write_diagnosis(Diagnosis(verdict(PROBE), PROBE | GAME), run)
    (tmp_path / "figures/accuracy.svg").write_text("of the training")
    (tmp_path / "figures/samples.png").write_bytes(b"of the training")
    report = write_diagnosis(Diagnosis(verdict(PROBE), PROBE), run)
    assert report == tmp_path / "report.html"
    assert "Partly aligned" in report.read_text()
    assert "data:image/png;base64," in report.read_text()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".dann-manifest.json", "diagnosis.json", "figures", "report.html"}
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"accuracy.svg", "diagnosis_probe.svg", "samples.png"}
