"""The readers: functions that read two domains and give them as one `DomainPair`."""

from collections.abc import Callable

from dann.data.domain_pair import DomainPair
from dann.registry import Registry

# Facts of an entry: `reads`, what the user has; `command`, arguments of `scripts/train.py`, and
# `config`, the file's name in `conf/data/`; both are `None` where it is for Python alone.
READERS: Registry[Callable[..., DomainPair]] = Registry("reader")
