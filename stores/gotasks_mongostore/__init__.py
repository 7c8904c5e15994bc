"""The MongoDB store."""

from gotasks_mongostore._store import MongoStore

__all__ = ["MongoStore"]
