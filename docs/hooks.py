"""MkDocs hooks: API pages from the package, formulas as MathML, and links of notebooks.

Each package of `dann` gets a page of its public names, so no list of modules has to be maintained.
Browsers render MathML natively, so the site needs no script for formulas.
"""

import collections
import inspect
import itertools
import posixpath
import re
import types
import typing

from latex2mathml.converter import convert
from mkdocs.structure.files import File

import dann

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
LINK = re.compile(r'(?<=href=")[^":#]+\.(?:md|ipynb)')


def on_config(config):
    """Adds a page per package to the Reference section of the navigation."""
    pages = [{"Overview": "reference/index.md"}]
    pages += [{package.__name__: f"reference/{name}.md"} for name, package in subpackages(dann)]
    [section] = [section["Reference"] for section in config.nav if "Reference" in section]
    section.append({"API": pages})
    return config


def on_files(files, config):
    """Generates a page per package."""
    for name, package in subpackages(dann):
        content = f"# {package.__name__}\n\n{render_package(package)}"
        files.append(File.generated(config, f"reference/{name}.md", content=content))


def on_page_markdown(markdown, page, **kwargs):
    """Appends the table of public names to the overview."""
    if page.file.src_uri != "reference/index.md":
        return markdown
    header = "| package | contents | names |\n|---|---|---|"
    return "\n".join([markdown, header, *render_rows(dann)])


def on_page_content(html, page, files, **kwargs):
    """Replaces formulas with MathML, and files in the links of a notebook with addresses.

    Raises:
        KeyError: If a notebook has a link to a file that does not exist.
    """
    folder = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri.endswith(".ipynb"):  # mkdocs resolves the links of other pages
        for path in set(LINK.findall(html)):
            file = files.src_uris[posixpath.normpath(posixpath.join(folder, path))]
            html = html.replace(f'href="{path}', f'href="{file.url_relative_to(page.file)}')
    return FORMULA.sub(to_mathml, html)


def subpackages(package):
    """Returns the names and modules of the subpackages that have public names."""
    objects = public_objects(package).items()
    return [(name, member) for name, member in objects if isinstance(member, types.ModuleType)]


def render_rows(package):
    """Returns the rows of a package and of its subpackages in the table of public names."""
    label = f"`{package.__name__}`"
    if package is not dann:
        label = f"[{label}]({package.__name__.split('.')[1]}.md)"
    objects = public_objects(package)
    names, rows = [], []
    for name, member in objects.items():
        if isinstance(member, types.ModuleType):
            rows += render_rows(member)
        else:
            names.append(f"[`{name}`][{object_path(member)}]")
    return [f"| {label} | {package.__doc__.splitlines()[0]} | {', '.join(names)} |", *rows]


def object_path(member):
    """Returns the dotted path of a class or function, which is also its anchor."""
    return f"{member.__module__}.{member.__qualname__}"


def render_package(package):
    """Returns a package's docstring and the directives for its public names, in Markdown."""
    parts = [inspect.cleandoc(package.__doc__)]
    members = public_objects(package) | related_classes(package)
    kinds = filter(inspect.isclass, members.values())
    subclasses = collections.Counter(base for kind in kinds for base in kind.__mro__[1:])
    # Base classes are last, because most of their methods are hooks for new subclasses.
    for name, member in sorted(members.items(), key=lambda item: subclasses[item[1]] > 1):
        if isinstance(member, types.ModuleType):
            parts.append(f"## {member.__name__}\n\n{render_package(member)}")
        else:
            path = object_path(member)
            parts.append(f"::: {path}\n    options: {{heading: {name}, toc_label: {name}}}\n")
    return "\n\n".join(parts)


def public_objects(package):
    """Returns the public classes, functions and subpackages of a package, by name."""
    return dict(inspect.getmembers(package, is_documented))


def is_documented(member):
    """Returns whether an attribute of a package of `dann` is public and gets an entry."""
    if inspect.ismodule(member):
        is_package = hasattr(member, "__path__") and member.__name__.startswith("dann.")
        return is_package and bool(public_objects(member))
    is_object = inspect.isclass(member) or inspect.isfunction(member)
    return is_object and member.__module__.startswith("dann.") and member.__name__[0] != "_"


def related_classes(package):
    """Returns classes by name: results of the package's functions, and bases of its classes."""
    classes, prefix = [], f"{package.__name__}."
    for member in public_objects(package).values():
        if inspect.isfunction(member):
            classes += find_classes(inspect.signature(member).return_annotation)
        elif inspect.isclass(member):
            classes += member.__mro__
    classes = [kind for kind in classes if kind.__doc__ and is_documented(kind)]
    names = {kind.__name__: kind for kind in classes if kind.__module__.startswith(prefix)}
    return dict(sorted(names.items()))


def find_classes(annotation):
    """Returns the classes in an annotation, such as `dict[str, Leakage]`, and in their fields."""
    parts = typing.get_args(annotation)
    if inspect.isclass(annotation) and is_documented(annotation):
        parts = vars(annotation).get("__annotations__", {}).values()
    return [annotation, *itertools.chain.from_iterable(map(find_classes, parts))]


def to_mathml(match):
    """Returns a formula as MathML: `div` elements as blocks, `span` elements inline."""
    display = "block" if match[1] == "div" else "inline"
    return convert(match[2].replace("&lt;", "<").replace("&gt;", ">"), display=display)
