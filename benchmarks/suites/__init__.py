"""The suites: a file each, which registers a class with a `measure` method.

`conf/benchmark.yaml` has a section of the same name with the arguments of that class.
"""

from dann.registry import Registry, import_modules

SUITES = Registry("suite")

import_modules(__name__)
