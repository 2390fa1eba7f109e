"""Replies that are kept, so that nothing is asked twice; a content-addressed SQLite file."""

import json
import sqlite3
import time
import weakref
from dataclasses import replace
from pathlib import Path

from balar_core.errors import InvalidInput

from .errors import StorageTrouble
from .model import Model
from .values import (
    Completion,
    Request,
    Usage,
    canonical_json,
    completion_from_data,
    completion_to_data,
    content_address,
    request_to_data,
)

__all__ = ["CachingModel"]

VERSION = 1
BUSY_SECONDS = 30.0
"""How long to wait while another process writes."""


class CachingModel:
    """A model that is asked only what the cache does not hold.

    The address of a reply is a digest of everything it depends on (`content_address`). Only
    completions are kept, no errors. A reply from the cache has cost nothing: its usage is empty.
    Several processes may use the same file, and any of them may be killed at any time.

    Args:
        model: the model.
        path: the file; it is made if it is not there.
        identity: who replies, such as `ChatModel.identity`; models that reply differently need
            different identities.

    Raises:
        StorageTrouble: the file cannot be used.
    """

    def __init__(self, model: Model, path: Path, *, identity: str) -> None:
        self._model = model
        self._path = path
        self._identity = identity
        self._database = _open(path)
        self._close = weakref.finalize(self, self._database.close)

    async def complete(self, request: Request) -> Completion:
        """The reply that is kept, or else the model's, which is kept from now on.

        Raises:
            ModelError: the model raised it, or the file cannot be used.
        """
        address = content_address(request, self._identity)
        try:
            kept = self._find(address)
            if kept is not None:
                return replace(kept, usage=Usage())
            completion = await self._model.complete(request)
            self._keep(address, request, completion)
        except sqlite3.Error as error:
            raise _trouble(self._path, error) from None
        return completion

    def close(self) -> None:
        """Close the file; nothing can be asked any more."""
        self._close()

    def _find(self, address: str) -> Completion | None:
        found = self._database.execute(
            "SELECT completion FROM completions WHERE address = ?", (address,)
        ).fetchone()
        if found is None:
            return None
        try:
            return completion_from_data(json.loads(found[0]))
        except (InvalidInput, ValueError):
            raise StorageTrouble(
                f"{self._path} holds a damaged reply at {address}; delete the file."
            ) from None

    def _keep(self, address: str, request: Request, completion: Completion) -> None:
        """The first reply at an address stays, whoever else brings one."""
        self._database.execute(
            "INSERT OR IGNORE INTO completions VALUES (?, ?, ?, ?, ?)",
            (
                address,
                self._identity,
                canonical_json(request_to_data(request)),
                canonical_json(completion_to_data(completion)),
                time.time(),
            ),
        )


def _open(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(database, path)
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise _trouble(path, error) from None
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    _write_ahead(database)
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("BEGIN IMMEDIATE")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, VERSION):
        raise StorageTrouble(
            f"{path} is a cache of version {version}, but this balar knows version {VERSION}; "
            "give another file."
        )
    database.execute(
        "CREATE TABLE IF NOT EXISTS completions (address TEXT PRIMARY KEY, identity TEXT NOT NULL,"
        " request TEXT NOT NULL, completion TEXT NOT NULL, kept_at REAL NOT NULL)"
    )
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def _write_ahead(database: sqlite3.Connection) -> None:
    """Write ahead, so that readers and a writer do not wait for each other.

    SQLite does not wait while another process switches a new file to this mode, so we do.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _trouble(path: Path, error: sqlite3.Error) -> StorageTrouble:
    return StorageTrouble(f"{path} cannot be used as a cache: {error}. Give another file.")
