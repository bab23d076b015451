from dann.diagnostics import Diagnosis, Verdict
from dann.training import RunDirectory
from dann.training.diagnose_run import write_diagnosis

EARLIER = {"probe/loss": 0.5, "signal/source/a/gain": 0.1, "signal/target/a/gain": 0.2}


def of(measurements, name="aligned"):
    return Diagnosis(Verdict(name, ("a reason",)), measurements)


def test_a_later_diagnosis_takes_the_place_of_an_earlier_one_and_of_all_its_figures(tmp_path):
    write_diagnosis(of(EARLIER), RunDirectory(tmp_path))
    (tmp_path / "figures/accuracy.svg").write_text("of the training")
    report = write_diagnosis(of({"probe/loss": 0.3}, "under-adapted"), RunDirectory(tmp_path))
    assert report == tmp_path / "report.html"
    assert "Under-adapted" in report.read_text()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "diagnosis.json",
        "figures",
        "figures/accuracy.svg",
        "figures/diagnosis_discriminators.svg",
        "report.html",
    ]
