"""Converts docstrings to Markdown, for the API pages: Keras's sections, examples and links."""

import inspect
import operator
import re
import textwrap

import griffe

import dann

TITLES = "Call arguments|Figure|Input shape|Output shape|Reference"
SECTION = re.compile(rf"^({TITLES}):\n((?:    .*\n|\n)+)", re.MULTILINE)
ARGUMENT = re.compile(r"^(\w+): ", re.MULTILINE)
REFERENCE = re.compile(r"\bsee(\s+)`(?:dann\.)?((?:\w+\.)?\w+)`")
EXAMPLE = re.compile(r"^(?:>>> .*\n)(?:.+\n)*", re.MULTILINE)


class KerasDocstrings(griffe.Extension):
    """Griffe extension that rewrites each docstring with `to_markdown`."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring):
    """Returns the docstring with fenced examples and with paragraphs for the Keras sections."""
    text = SECTION.sub(_format_section, REFERENCE.sub(_format_link, docstring) + "\n")
    text = EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}```\n", text)
    return re.sub(r"^Example:$", "**Example**", text, flags=re.MULTILINE)


def _format_link(match):
    """Returns "see `DANN`" with a link, if it names a public class or function of `dann`."""
    space, name = match.groups()
    try:
        member = operator.attrgetter(name)(dann)
    except AttributeError:  # of another library, or not public
        return match[0]
    if not (inspect.isclass(member) or inspect.isfunction(member)):
        return match[0]
    return f"see{space}[`{name}`][{member.__module__}.{member.__qualname__}]"


def _format_section(match):
    body = textwrap.dedent(match[2])
    if match[1] == "Call arguments":
        body = ARGUMENT.sub(r"- `\1`: ", body)
    return f"**{match[1]}**\n\n{body}"
