"""Runs the Python blocks of a Markdown page and composes its shell commands with Hydra."""

import doctest
import pathlib
import re
import shlex
import tomllib

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser

import dann.config.schema  # noqa: F401  registers the schemas that the configs name

ROOT = pathlib.Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
OTHER_PROGRAMS = {"bash", "git", "lint-imports", "mkdocs", "pyright", "ruff"}


def blocks(text, language):
    """Returns the line number and the code of each block in a language, in order."""
    return [
        (text.count("\n", 0, match.start(2)), match[2])
        for match in FENCE.finditer(text)
        if match[1] == language
    ]


def run_page(path, names):
    """Runs the Python blocks of a page in one namespace.

    Blocks that start with `>>>` are doctests. Tracebacks show the line numbers of the page.
    """
    for line, block in blocks((ROOT / path).read_text(), "python"):
        if block.lstrip().startswith(">>>"):
            _run_session(path, line, block, names)
        else:
            exec(compile("\n" * line + block, str(ROOT / path), "exec"), names)


def _run_session(path, line, block, names):
    session = doctest.DocTestParser().get_doctest(block, names, str(path), str(path), line)
    report = []
    session.globs = names
    result = doctest.DocTestRunner(verbose=False).run(session, out=report.append, clear_globs=False)
    assert result.failed == 0, "".join(report)


def commands(text):
    """Yields each command of the shell blocks as a list of words, without comments."""
    for _, block in blocks(text, "bash"):
        block = re.sub(r"<[^>\n]*>", "PLACEHOLDER", block).replace("\\\n", " ")
        for line in block.splitlines():
            for command in re.split(r"&&|;", line):
                if words := shlex.split(command, comments=True):
                    yield words


def check_command(words):
    """Fails if a command has an unknown program, file, extra or config value."""
    words = [word for word in words if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    if words[0] == "pip":
        check_extras(words)
    elif words[0] == "python" and words[1].startswith("scripts/"):
        check_script(pathlib.Path(words[1]), words[2:])
    elif words[0].startswith("dann-"):
        check_script(pathlib.Path(f"scripts/{words[0].removeprefix('dann-')}.py"), words[1:])
    elif words[0] == "python" and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file(), words
    elif words[0] == "pytest":
        assert all((ROOT / word).exists() for word in words[1:] if word.startswith("tests")), words
    else:
        assert words[0] in OTHER_PROGRAMS or words[:2] == ["python", "-m"] or "/" in words[1], words


def check_extras(words):
    """Fails if a `pip install` names an extra that `pyproject.toml` lacks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [extra for word in words for extra in re.findall(r"\[(.+)\]", word)]
    assert set(",".join(extras).split(",")) - {""} <= set(project["optional-dependencies"]), words


def check_script(script, arguments):
    """Fails if Hydra cannot compose the config of a script with these arguments."""
    assert (ROOT / script).is_file(), script
    overrides = [word for word in arguments if not word.startswith("-")]
    for job in expand_sweep(overrides):
        with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            compose(script.stem, [*job, "paths.run_dir=run"], return_hydra_config=True)


def expand_sweep(overrides):
    """Yields the overrides of each job; without a sweep, there is one job."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    sweeps = [override for override in parsed if override.is_sweep_override()]
    plain = [override.input_line for override in parsed if not override.is_sweep_override()]
    for sweep in sweeps:
        for value in sweep.sweep_string_iterator():
            yield [*plain, f"{sweep.get_key_element()}={value}"]
    if not sweeps:
        yield plain
