"""A store in memory, with the semantics of the real one: for unit tests and examples."""

from gotasks_memstore._store import MemStore

__all__ = ["MemStore"]
