"""The readers: functions that read two domains and give them as one `DomainPair`."""

from collections.abc import Callable

from dann.data.domain_pair import DomainPair
from dann.registry import Registry

# Facts of an entry: `reads`, what the user has; and, unless it is for Python only, `command`, the
# arguments of `scripts/train.py`, and `config`, the name of its file in `conf/data/`.
READERS: Registry[Callable[..., DomainPair]] = Registry("reader")
