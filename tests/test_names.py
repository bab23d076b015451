"""Names and first sentences of docstrings are plain technical English."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Adjectives, participles and pronouns that do not say which object they stand for.
WORDS = """
any both each every few further lacking many most none one ones other others own same some such that
these this those thing things what which who whom whose where how
alone apart aside beside here there together whole wholly
added asked asked_for begun brought built_of chosen drawn ended followed found given grown held kept
known led left looked lost made meant met mine named needed picked put put_back said seen shown
taken told turned wanted
asks begins ends gives goes has having holds its judged keeps knows lies says stands takes tells
"""
VAGUE = frozenset(WORDS.split())
INVERTED = re.compile(r"_*(of_\w+|\w+_of|\w+_of_\w+)")
FIELD_TERMS = {"out_of_bounds", "degrees_of_freedom", "instance_of"}
HEADLESS = re.compile(r"(As|How|Of|That|Those|What|Where|Whether|Which|Who|Whose)\b")
FOLDERS = ("dann", "scripts", "benchmarks", "tests", "docs")
REMEDIES = {
    "vague name": "name the object: `layer`, `rows`, `summary`, not `one`, `found`, `given`",
    "inverted name": "begin with a verb or put the noun last: `get_texts`, not `texts_of`",
    "docstring without a head": "begin with a verb in the third person, for a class with a noun",
}


def find_offenders(text):
    """Returns a line, a kind and a text per offender."""
    offenders = []
    for node in ast.walk(ast.parse(text)):
        name = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name, docstring = node.name, ast.get_docstring(node) or ""
            is_exempt = name.startswith("test_") or name in FIELD_TERMS
            if INVERTED.fullmatch(name) and not is_exempt:
                offenders.append((node.lineno, "inverted name", name))
            if HEADLESS.match(docstring):
                first_line = docstring.splitlines()[0]
                offenders.append((node.lineno, "docstring without a head", first_line))
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        if name is not None and name.strip("_") in VAGUE:
            offenders.append((node.lineno, "vague name", name))
    return offenders


@functools.cache
def collect(folder):
    """Returns messages about the offenders of a folder by their kind."""
    messages = {kind: [] for kind in REMEDIES}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for line, kind, text in find_offenders(path.read_text(encoding="utf-8")):
            messages[kind].append(f"{path.relative_to(ROOT)}:{line}: {text}")
    return messages


@pytest.mark.parametrize("kind", REMEDIES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_names_and_docstrings_are_plain(folder, kind):
    offenders = collect(folder)[kind]
    assert not offenders, "\n".join([REMEDIES[kind], *offenders])


def test_offenders_are_found():
    text = 'def texts_of(given):\n    """What is read."""\n    given.found = True\n'
    assert find_offenders(text) == [
        (1, "inverted name", "texts_of"),
        (1, "docstring without a head", "What is read."),
        (1, "vague name", "given"),
        (3, "vague name", "found"),
    ]
