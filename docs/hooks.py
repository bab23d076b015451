"""MkDocs hooks: API pages generated from the package, and formulas as MathML.

Each package of `dann` gets a page of its public names, so no list of modules has to be maintained.
Browsers render MathML natively, so the site needs no script for formulas.
"""

import importlib
import inspect
import pathlib
import re
import types
from functools import partial

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[1]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config):
    """Adds a page per package to the Reference section of the navigation."""
    pages = [{"Overview": "reference/index.md"}]
    pages += [{f"dann.{name}": f"reference/{name}.md"} for name in load_packages()]
    [section] = [section["Reference"] for section in config.nav if "Reference" in section]
    section.append({"API": pages})
    return config


def on_files(files, config):
    """Generates the API pages."""
    overview = "# API reference\n\nEvery public class and function, by the package that exports it."
    overview += "\n\n| package | contents |\n|---|---|\n"
    for name, package in load_packages().items():
        content = f"# dann.{name}\n\n{render_package(package)}"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
        overview += f"| [`dann.{name}`]({name}.md) | {package.__doc__.splitlines()[0]} |\n"
    files.append(File.generated(config, "reference/index.md", content=overview))


def on_page_content(html, **kwargs):
    """Replaces formulas with MathML."""
    return FORMULA.sub(to_mathml, html)


def load_packages():
    """Returns the subpackages of `dann` that have public names, by name."""
    names = sorted(path.parent.name for path in (ROOT / "dann").glob("*/__init__.py"))
    packages = {name: importlib.import_module(f"dann.{name}") for name in names}
    return {name: package for name, package in packages.items() if public_objects(package)}


def render_package(package):
    """Returns a package's docstring and the directives for its public names, in Markdown."""
    parts = [inspect.cleandoc(package.__doc__)]
    for name, member in (public_objects(package) | documented_bases(package)).items():
        if isinstance(member, types.ModuleType):
            parts.append(f"## {member.__name__}\n\n{render_package(member)}")
        else:
            path = f"{member.__module__}.{member.__qualname__}"
            parts.append(f"::: {path}\n    options: {{heading: {name}, toc_label: {name}}}\n")
    return "\n\n".join(parts)


def public_objects(package):
    """Returns the public classes, functions and subpackages of a package, by name."""
    return dict(inspect.getmembers(package, partial(is_documented, package.__name__)))


def is_documented(package_name, member):
    """Returns whether a public member is defined in the package and gets an entry on its page."""
    if inspect.ismodule(member):
        is_subpackage = hasattr(member, "__path__") and member.__name__.startswith(package_name)
        return is_subpackage and bool(public_objects(member))
    is_object = inspect.isclass(member) or inspect.isfunction(member)
    is_public = is_object and not member.__name__.startswith("_")
    return is_public and f"{member.__module__}.".startswith(f"{package_name}.")


def documented_bases(package):
    """Returns the base classes with docstrings that public classes of the package inherit."""
    public = [member for member in public_objects(package).values() if inspect.isclass(member)]
    bases = {base for member in public for base in member.__mro__ if base not in public}
    bases = [base for base in bases if base.__doc__ and is_documented(package.__name__, base)]
    return {base.__name__: base for base in sorted(bases, key=lambda base: base.__name__)}


def to_mathml(match):
    """Returns a formula as MathML: `div` elements as blocks, `span` elements inline."""
    display = "block" if match[1] == "div" else "inline"
    return convert(match[2].replace("&lt;", "<").replace("&gt;", ">"), display=display)
