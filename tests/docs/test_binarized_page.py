import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "binarized.md"


def test_the_code_of_the_estimators_and_layers_prints_what_the_page_says():
    text = PAGE.read_text().partition("## Layers")
    sections = text[0] + text[1] + text[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", sections, re.DOTALL | re.MULTILINE)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) >= 8
    report = []
    result = doctest.DocTestRunner(verbose=False).run(page, out=report.append)
    assert result.failed == 0, "".join(report)
