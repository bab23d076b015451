import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/deployment.md"


def test_the_page_on_deployment_shows_what_happens():
    section = PAGE.read_text().partition("\n## What is packed")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) == 14
    report = []
    result = doctest.DocTestRunner(verbose=False).run(page, out=report.append)
    assert result.failed == 0, "".join(report)
