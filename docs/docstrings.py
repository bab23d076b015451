"""Turns what Keras's docstrings have beside Google's sections into Markdown, for the API pages."""

import re
import textwrap

import griffe

SECTION = re.compile(
    r"^(Call arguments|Figure|Input shape|Output shape|Reference):\n((?:    .*\n|\n)+)",
    re.MULTILINE,
)
ARGUMENT = re.compile(r"^(\w+): ", re.MULTILINE)
EXAMPLE = re.compile(r"^(?:>>> .*\n)(?:.+\n)*", re.MULTILINE)


class KerasDocstrings(griffe.Extension):
    """Examples become code blocks, and sections that Griffe does not know become paragraphs."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(docstring):
    """Returns the docstring with fenced examples and with paragraphs for Keras's sections."""
    text = SECTION.sub(_paragraph, docstring + "\n")
    text = EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}```\n", text)
    return re.sub(r"^Example:$", "**Example**", text, flags=re.MULTILINE)


def _paragraph(match):
    body = textwrap.dedent(match[2])
    if match[1] == "Call arguments":
        body = ARGUMENT.sub(r"- `\1`: ", body)
    return f"**{match[1]}**\n\n{body}"
