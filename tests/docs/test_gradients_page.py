import doctest
import re
from pathlib import Path

import keras
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the page shows TensorFlow")
def test_the_code_on_the_page_prints_what_the_page_says():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    code = "\n".join(blocks)
    page = doctest.DocTestParser().get_doctest(code, {}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) > 20
    report = []
    result = doctest.DocTestRunner(verbose=False).run(page, out=report.append)
    assert result.failed == 0, "".join(report)
