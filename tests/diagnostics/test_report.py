"""The report of a diagnosis, and its figures."""

import html
import re

import numpy as np
import pytest

from dann.diagnostics import Diagnosis, Verdict
from dann.diagnostics.figures import draw
from dann.diagnostics.page import page
from dann.diagnostics.verdict import RULES, VERDICTS


def a_diagnosis(verdict="under-adapted", **others):
    measurements = {
        "reversal/state": "alive",
        "reversal/cosine": -1.0,
        "reversal/ratio": 0.3,
        "reversal/strength": 0.3,
        "domain/loss": 0.2,
        "probe/loss": 0.07,
        "jacobian/source/features/singular_values": np.array([3.0, 1.0]),
        "jacobian/target/features/singular_values": np.array([2.0, 0.5]),
        "signal/source/a_layer_with_a_long_name/gain": 1.5,
        "signal/target/a_layer_with_a_long_name/gain": 1.2,
        "game/eigenvalues/real": np.array([4.0, 0.5, 0.5, -0.1]),
        "game/eigenvalues/imag": np.array([0.0, 0.7, -0.7, 0.0]),
        "game/step": 0.02,
        **others,
    }
    about = {"method": "DANN", "source": "black & <white>", "target": "photos", "step": 1500}
    reasons = ("A fresh classifier tells the domains apart: 0.07.",)
    left_out = {"sharpness": "no loss"}
    return Diagnosis(Verdict(verdict, reasons), measurements, left_out, about)


@pytest.fixture(scope="module")
def rendered():
    """A report with all its figures."""
    diagnosis = a_diagnosis()
    return page(diagnosis, draw(diagnosis.measurements))


def test_it_opens_with_the_verdict_and_the_evidence_for_it(rendered):
    text = " ".join(re.sub(r"<[^>]+>", " ", rendered.partition("<main>")[2]).split())
    verdict = text.index("Under-adapted")
    reason = text.index("A fresh classifier tells the domains apart")
    probe = text.index("probe/loss 0.07 ✗ out of the healthy range")
    figures = text.index("Figures")
    assert verdict < reason < text.index("Evidence") < probe < figures
    assert "healthy: at least 0.35" in text[probe:]
    assert "reversal/ratio 0.3 ✓ in the healthy range healthy: 0.294 to 0.306" in text
    assert "black &amp; &lt;white&gt; → photos" in text
    assert "sharpness: no loss" in text


def shown(measurements):
    """The text of a report without figures."""
    content = page(Diagnosis(Verdict("unstable", ("r",)), measurements), [])
    return " ".join(re.sub(r"<[^>]+>", " ", content.partition("<main>")[2]).split())


def test_what_is_infinite_or_nan_is_named():
    text = shown({"domain/loss": 0.4, "probe/loss": 0.1})
    assert "domain/loss 0.4 ✓ in the healthy range healthy: 0.35 to 0.85" in text
    text = shown({"game/largest_stable_step": np.inf, "game/step": 0.1, "probe/loss": np.nan})
    assert "game/largest_stable_step infinite ✓ in the healthy range healthy: at least 0.1" in text
    assert "probe/loss not a number ✗ out of the healthy range" in text


def test_a_number_whose_range_is_not_known_is_no_evidence():
    lone = {"reversal/ratio": 0.3, "label/loss": 5.0, "sharpness/top_eigenvalue": 9.0}
    text = shown({**lone, "game/largest_stable_step": 0.2, "reversal/cosine": -1.0})
    assert "All in the healthy range. reversal/cosine" in text
    assert text.count("healthy:") == 1
    assert "reversal/ratio 0.3" in text
    known = {"reversal/strength": 0.3, "label/prior_entropy": 0.7, "game/step": 0.1}
    assert shown({**lone, **known}).count("healthy:") == 3


@pytest.mark.parametrize("name", ["$a_$b", r"a$\x$"])
def test_a_dollar_in_the_name_of_a_layer_is_a_dollar(name):
    (picture,) = draw({f"signal/{domain}/{name}/gain": 0.5 for domain in ("source", "target")})
    assert picture.name == "gains"
    assert f"<!-- {name} -->" in picture.svg.decode()


def test_what_is_not_finite_is_left_out_of_the_figures():
    for bad in (np.nan, 0.0):
        assert draw({f"signal/{domain}/a/gain": bad for domain in ("source", "target")}) == []
    for bad in (np.nan, np.inf):
        eigenvalues = {"game/eigenvalues/imag": np.array([0.0, 1.0])}
        eigenvalues["game/eigenvalues/real"] = np.array([bad, 2.0])
        finite = {name: values[1:] for name, values in eigenvalues.items()}
        assert draw(eigenvalues) == draw(finite) != []
        assert draw({name: values[:1] for name, values in eigenvalues.items()}) == []


def test_every_verdict_has_its_sentence():
    assert {*VERDICTS} == {rule({})[0] for rule in RULES} | {"aligned", "undetermined"}
    for name, sentence in VERDICTS.items():
        assert html.escape(sentence) in page(a_diagnosis(name), [])


def test_it_refers_to_nothing_outside_of_itself(rendered):
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", rendered) == []
    assert "@import" not in rendered
    assert "url(" not in re.search(r"<style>(.*?)</style>", rendered, re.DOTALL)[1]
    assert 'name="viewport" content="width=device-width' in rendered
