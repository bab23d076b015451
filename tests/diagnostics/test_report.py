"""The report as a browser shows it."""

import html
import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

from dann.diagnostics import Diagnosis, Verdict
from dann.diagnostics.report.figures import draw
from dann.diagnostics.report.page import page
from dann.diagnostics.verdict import RULES, VERDICTS

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")

# The page in a frame, as the browser makes no window narrower than 500 pixels; and what only a
# browser knows of it.
FRAME = """<!doctype html>
<iframe style="border: 0; width: {width}px; height: 800px" srcdoc="{content}"></iframe>
<script>
addEventListener("load", () => {{
  const inside = document.querySelector("iframe").contentWindow;
  const rules = [...inside.document.styleSheets[0].cssRules].filter(rule => rule.media);
  const meant = rules.filter(rule => rule.media.mediaText === "{media}");
  meant.forEach(rule => {{ rule.media.mediaText = "all"; }});
  const style = element => inside.getComputedStyle(element);
  document.body.setAttribute("data-told", JSON.stringify({{
    widths: [...inside.document.images].map(image => image.naturalWidth),
    requests: inside.performance.getEntriesByType("resource").map(entry => entry.name),
    overflow: inside.document.documentElement.scrollWidth - inside.innerWidth,
    width: inside.innerWidth,
    torn: [...inside.document.querySelectorAll("article, figure, .verdict")]
      .filter(element => style(element).breakInside !== "avoid").length,
    table: style(inside.document.querySelector("details").parentElement).display,
    size: style(inside.document.body).fontSize,
  }}));
}});
</script>
"""


def a_diagnosis(verdict="under-adapted", **others):
    measurements = {
        "reversal/state": "alive",
        "reversal/cosine": -1.0,
        "reversal/ratio": 0.3,
        "reversal/strength": 0.3,
        "domain/loss": 0.2,
        "probe/loss": 0.07,
        "conflict/conv/source_cosine": -0.2,
        "conflict/conv/target_cosine": 0.1,
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


def opened(content, folder, width=1200, media="screen"):
    """What the browser knows of a page, and what it wrote to the console."""
    if BROWSER is None:
        pytest.skip("no chromium or google-chrome on this machine")
    path = pathlib.Path(folder) / "frame.html"
    frame = FRAME.format(width=width, content=html.escape(content), media=media)
    path.write_text(frame, encoding="utf-8")
    result = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={folder}/profile",
            "--window-size=1400,900",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = re.search(r'data-told="([^"]*)"', result.stdout)
    assert told, result.stderr[-2000:]
    console = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(told[1])), console


def test_the_browser_shows_every_figure_asks_for_nothing_and_reports_no_error(rendered, tmp_path):
    told, console = opened(rendered, tmp_path)
    assert len(told["widths"]) == 5
    assert min(told["widths"]) > 100
    assert [name for name in told["requests"] if not name.startswith("data:")] == []
    assert console == []


def test_on_a_phone_nothing_is_wider_than_the_screen(rendered, tmp_path):
    told, _ = opened(rendered, tmp_path, width=390)
    assert told["width"] == 390
    assert told["overflow"] <= 0


def test_on_paper_no_figure_is_torn_or_cut_and_a_closed_table_is_not_there(rendered, tmp_path):
    """Of 739 pixels, which is a letter's width within the browser's margins."""
    told, _ = opened(rendered, tmp_path, width=739, media="print")
    assert told["overflow"] <= 0
    assert (told["torn"], told["table"]) == (0, "none")
    assert told["size"] == "13.3333px"  # 10 points
    told, _ = opened(rendered, tmp_path)
    assert (told["table"], told["size"]) == ("block", "16px")
    assert told["torn"] > 0


def test_a_request_a_broken_figure_and_an_error_would_be_noticed(rendered, tmp_path):
    """The test above can fail: a page with all three faults."""
    faults = (
        '<img src="https://example.invalid/x.png"><img src="data:image/png;base64,AAAA">'
        "<script>console.error('planted')</script></main>"
    )
    told, console = opened(rendered.replace("</main>", faults), tmp_path)
    assert told["widths"].count(0) == 2
    assert any("example.invalid" in name for name in told["requests"])
    assert any("planted" in line for line in console)


def test_it_opens_with_the_verdict_and_the_evidence_for_it(rendered):
    text = " ".join(re.sub(r"<[^>]+>", " ", rendered.partition("<main>")[2]).split())
    verdict = text.index("Under-adapted")
    reason = text.index("A fresh classifier tells the domains apart")
    probe = text.index("Loss of a fresh discriminator 0.07 ✗ out of the healthy range")
    figures = text.index("Figures")
    assert verdict < reason < text.index("Evidence") < probe < figures
    assert "healthy: at least 0.35" in text[probe:]
    assert "Strength that arrives 0.3 ✓ in the healthy range healthy: 0.294 to 0.306" in text
    assert "black &amp; &lt;white&gt; → photos" in text
    assert "sharpness : no loss" in text


def shown(measurements):
    """The text of a report without figures."""
    content = page(Diagnosis(Verdict("unstable", ("r",)), measurements), [])
    return " ".join(re.sub(r"<[^>]+>", " ", content.partition("<main>")[2]).split())


def test_what_is_infinite_or_nan_is_named():
    text = shown({"domain/loss": 0.4, "probe/loss": 0.1})
    assert "Loss of the live discriminator 0.4 ✓ in the healthy range healthy: 0.35 to 0.85" in text
    text = shown({"game/largest_stable_step": np.inf, "game/step": 0.1, "probe/loss": np.nan})
    assert "Largest stable step infinite ✓ in the healthy range healthy: at least 0.1" in text
    assert "Loss of a fresh discriminator not a number ✗ out of the healthy range" in text


def test_a_number_whose_range_is_not_known_is_no_evidence():
    lone = {"reversal/ratio": 0.3, "label/loss": 5.0, "sharpness/top_eigenvalue": 9.0}
    text = shown({**lone, "game/largest_stable_step": 0.2, "reversal/cosine": -1.0})
    assert "All in the healthy range. Direction" in text
    assert text.count("healthy:") == 1
    assert "reversal/ ratio 0.3" in text
    known = {"reversal/strength": 0.3, "label/prior_entropy": 0.7, "game/step": 0.1}
    assert shown({**lone, **known}).count("healthy:") == 3


@pytest.mark.parametrize("name", ["$a_$b", r"a$\x$"])
def test_a_dollar_in_the_name_of_a_layer_is_a_dollar(name):
    kinds = ("conflict/{}/{}_cosine", "signal/{1}/{0}/gain")
    domains = ("source", "target")
    pictures = draw({kind.format(name, domain): 0.5 for kind in kinds for domain in domains})
    assert [picture.name for picture in pictures] == ["conflicts", "gains"]
    for picture in pictures:
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
    assert "@media print" in rendered
