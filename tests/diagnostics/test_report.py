"""The report of a diagnosis, and its figures."""

import re

import numpy as np

from dann.diagnostics import Diagnosis, verdict
from dann.diagnostics.catalogue import RANGES, evidence
from dann.diagnostics.figures import Picture, draw
from dann.diagnostics.page import page
from dann.diagnostics.verdict import STATES, VERDICTS

FOUND = {
    "reversal/state": "alive",
    "reversal/cosine": -1.0,
    "reversal/ratio": 0.3,
    "reversal/strength": 0.3,
    "domain/loss": 0.5,
    "domain/accuracy": 0.6,
    "probe/accuracy": 0.78,
    "probe/low": 0.74,
    "probe/high": 0.82,
    "probe/loss": 0.45,
    "game/eigenvalues/real": np.array([4.0, 0.5, 0.5, -0.1]),
    "game/eigenvalues/imag": np.array([0.0, 0.7, -0.7, 0.0]),
    "game/step": 0.02,
}
ABOUT = {"method": "DANN", "source": "black & <white>", "target": "photos", "step": 1500}


def rendered(measurements, *rest):
    found = Diagnosis(verdict(measurements), measurements, {"sharpness": "no loss"}, ABOUT)
    return page(found, draw(measurements), *rest)


def text_of(content):
    return " ".join(re.sub(r"<[^>]+>", " ", content.partition("<main>")[2]).split())


def test_it_opens_with_the_verdict_its_reasons_and_what_to_do():
    accuracies = {"source only": (0.99, 0.75), "DANN": (0.98, None)}
    content = rendered(FOUND, accuracies, [Picture("samples", "Some images.", b"png", "png")])
    text = text_of(content)
    parts = ["Partly aligned: a fresh probe still tells 78%", "74% to 82%", "What to do."]
    parts += ["source target (oracle)", "source only 99.0% 75.0%", "DANN 98.0% unknown"]
    parts += ["Some images.", "✗ probe/accuracy 0.78", "✓ reversal/ratio 0.3", "no loss"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "black &amp; &lt;white&gt; → photos" in text
    assert "class='verdict open'" in content
    # It refers to nothing outside of itself.
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", content) == []
    assert "url(" not in content


def test_there_is_no_green_over_a_value_outside_its_range():
    aligned = FOUND | {"probe/accuracy": 0.5, "probe/low": 0.46, "probe/high": 0.54}
    assert "class='verdict good'" in rendered(aligned)
    assert "class='verdict open'" in rendered(aligned | {"conflict/cosine": -0.95})
    assert "class='verdict bad'" in rendered(aligned | {"reversal/state": "detached"})


def test_evidence_lists_values_beside_their_ranges_the_unhealthy_first():
    lone = {"reversal/ratio": 0.4, "label/loss": 5.0, "sharpness/top_eigenvalue": 9.0}
    assert evidence(lone) == []  # their ranges depend on what was not measured
    known = {"reversal/strength": 0.3, "label/prior_entropy": 0.7, "game/step": 0.1}
    more = {"domain/loss": 0.95, "probe/loss": 0.4, "binary/dense/sign/pass_rate": 0.5}
    found = evidence({**lone, **known, **more, "unknown": 3.0})
    assert [one.is_healthy for one in found] == [False] * 3 + [True] * 2
    healthy = {one.name for one in found if one.is_healthy}
    assert healthy == {"binary/dense/sign/pass_rate", "sharpness/top_eigenvalue"}


def test_every_range_and_every_state_names_a_verdict_that_exists():
    named = {one.verdict for one in RANGES} | {name for name, *_ in STATES.values()}
    levels = {"aligned", "partly aligned", "not aligned", "reversal alive", "undetermined"}
    assert named - {None} == set(VERDICTS) - levels


def test_figures_are_the_same_each_time_and_leave_out_what_is_not_finite():
    assert [one.name for one in draw(FOUND)] == ["probe", "game"]
    assert draw(FOUND) == draw(FOUND)
    assert [one.name for one in draw(FOUND | {"probe/accuracy": np.nan})] == ["game"]
    assert draw({}) == []
