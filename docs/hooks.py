"""What MkDocs does with this site beside its plugins: API pages from the package, and formulas.

Every room of `dann` gets a page of its exported names, so that no list of modules is kept by hand.
Formulas become MathML, which browsers draw themselves: the site needs no script for them.
"""

import importlib
import inspect
import pathlib
import re
import types

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[1]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config):
    """Adds a page for each room to the part of the navigation that is the reference."""
    pages = [{"Overview": "reference/index.md"}]
    pages += [{f"dann.{room}": f"reference/{room}.md"} for room in rooms()]
    [part] = [section["Reference"] for section in config.nav if "Reference" in section]
    part.append({"API": pages})
    return config


def on_files(files, config):
    """Writes those pages."""
    rows = []
    for room in rooms():
        module = importlib.import_module(f"dann.{room}")
        add(files, config, f"reference/{room}.md", f"# dann.{room}\n\n{reference(module)}")
        rows.append(f"| [`dann.{room}`]({room}.md) | {module.__doc__.partition(chr(10))[0]} |")
    table = "\n".join(["| module | what it holds |", "|---|---|", *rows])
    lead = "Every public class and function, by the module that exports it."
    add(files, config, "reference/index.md", f"# API reference\n\n{lead}\n\n{table}\n")


def on_page_content(html, **kwargs):
    """Replaces formulas by MathML."""
    return FORMULA.sub(to_mathml, html)


def rooms():
    """Names of the modules of the package that export something."""
    folders = [path.parent.name for path in (ROOT / "dann").glob("*/__init__.py")]
    return [
        room for room in sorted(folders) if list(exports(importlib.import_module(f"dann.{room}")))
    ]


def reference(module):
    """The page of a module: its docstring, then what it exports, in alphabetical order."""
    parts = [inspect.cleandoc(module.__doc__)]
    exported = dict(exports(module))
    for name, thing in [*exported.items(), *bases(module, exported.values())]:
        if isinstance(thing, types.ModuleType):
            parts.append(f"## {thing.__name__}\n\n{reference(thing)}")
        else:
            path = f"{thing.__module__}.{thing.__qualname__}"
            parts.append(f"::: {path}\n    options: {{heading: {name}, toc_label: {name}}}\n")
    return "\n\n".join(parts)


def bases(module, exported):
    """Names of documented classes that the exported ones derive from, and the classes."""
    found = {
        base.__name__: base
        for thing in exported
        if inspect.isclass(thing)
        for base in thing.__mro__
        if base.__module__.startswith(module.__name__) and base.__doc__ and base not in exported
    }
    return sorted(found.items())


def exports(module):
    """Names of a module's own classes, functions and packages, and what they stand for."""
    for name in sorted(dir(module), key=str.lower):
        thing = getattr(module, name)
        package = inspect.ismodule(thing) and hasattr(thing, "__path__") and dict(exports(thing))
        documented = inspect.isclass(thing) or inspect.isfunction(thing) or package
        home = thing.__name__ if package else getattr(thing, "__module__", "")
        if documented and home.startswith(module.__name__) and not name.startswith("_"):
            yield name, thing


def add(files, config, path, content):
    """Adds a page that no file of `docs/` holds."""
    files.append(File.generated(config, path, content=content))


def to_mathml(match):
    """Returns a formula as MathML, on a line of its own if it was a block."""
    display = "block" if match[1] == "div" else "inline"
    return convert(match[2].replace("&lt;", "<").replace("&gt;", ">"), display=display)
