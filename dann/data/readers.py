"""The readers: functions that read two domains and give them as one `DomainPair`."""

from collections.abc import Callable

from dann.data.domain_pair import DomainPair
from dann.registry import Registry

READERS: Registry[Callable[..., DomainPair]] = Registry("reader")
