"""Every code block of the README, of CONTRIBUTING.md and of the pages in `docs/`, as it stands."""

import pytest
from support import pages

PAGES = [
    "README.md",
    *sorted(str(p.relative_to(pages.ROOT)) for p in pages.ROOT.glob("docs/**/*.md")),
]
WITH_PYTHON = [path for path in PAGES if pages.blocks((pages.ROOT / path).read_text(), "python")]
COMMANDS = [
    pytest.param(words, id=f"{path}: {' '.join(words)}")
    for path in ["CONTRIBUTING.md", *PAGES]
    for words in pages.commands((pages.ROOT / path).read_text())
]


@pytest.mark.tensorflow
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning")
@pytest.mark.parametrize("path", WITH_PYTHON)
def test_the_python_of_a_page_does_what_the_page_says(path, names):
    pages.run_page(path, names)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_a_page_is_understood(words):
    pages.check_command(words)
