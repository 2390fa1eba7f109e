"""Replies that are kept, so that nothing is asked twice; a content-addressed SQLite file."""

import hashlib
import json
import sqlite3
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from balar_core.errors import InvalidInput

from .errors import StorageTrouble
from .model import LikelihoodModel, Model
from .values import (
    Completion,
    Request,
    TokenScores,
    Usage,
    canonical_json,
    completion_from_data,
    completion_to_data,
    content_address,
    request_to_data,
    token_scores_from_data,
    token_scores_to_data,
)

__all__ = ["CachingModel", "CachingScorer"]

T = TypeVar("T")

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
        self._identity = identity
        self._kept = _Kept(path)

    async def complete(self, request: Request) -> Completion:
        """The reply that is kept, or else the model's, which is kept from now on.

        Raises:
            ModelError: the model raised it, or the file cannot be used.
        """
        address = content_address(request, self._identity)
        kept = self._kept.find(address, completion_from_data)
        if kept is not None:
            return replace(kept, usage=Usage())
        completion = await self._model.complete(request)
        asked, reply = request_to_data(request), completion_to_data(completion)
        self._kept.keep(address, self._identity, asked, reply)
        return completion

    def close(self) -> None:
        """Close the file; nothing can be asked any more."""
        self._kept.close()


class CachingScorer:
    """A likelihood model that is asked only what the cache does not hold.

    Scores depend on the model, the context and the text alone, so that a model that changes, such
    as one that is being trained, must not be cached, or needs a new identity each time. The file
    may be that of a `CachingModel`.

    Args:
        model: the model.
        path: the file; it is made if it is not there.
        identity: who scores, such as `ScoringModel.identity`.

    Raises:
        StorageTrouble: the file cannot be used.
    """

    def __init__(self, model: LikelihoodModel, path: Path, *, identity: str) -> None:
        self._model = model
        self._identity = identity
        self._kept = _Kept(path)

    async def score(self, context: str, text: str) -> TokenScores:
        """The scores that are kept, or else the model's, which are kept from now on.

        Raises:
            ModelError: the model raised it, or the file cannot be used.
        """
        asked = {"context": context, "text": text}
        address = hashlib.sha256(canonical_json([self._identity, asked]).encode()).hexdigest()
        kept = self._kept.find(address, token_scores_from_data)
        if kept is not None:
            return kept
        scores = await self._model.score(context, text)
        self._kept.keep(address, self._identity, asked, token_scores_to_data(scores))
        return scores

    def close(self) -> None:
        """Close the file; nothing can be asked any more."""
        self._kept.close()


class _Kept:
    """The file: replies by their addresses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = _open(path)
        self.close = weakref.finalize(self, self._database.close)

    def find(self, address: str, read: Callable[[object], T]) -> T | None:
        """The reply at an address, if there is one."""
        try:
            found = self._database.execute(
                "SELECT completion FROM completions WHERE address = ?", (address,)
            ).fetchone()
        except sqlite3.Error as error:
            raise _trouble(self._path, error) from None
        if found is None:
            return None
        try:
            return read(json.loads(found[0]))
        except (InvalidInput, ValueError):
            raise StorageTrouble(
                f"{self._path} holds a damaged reply at {address}; delete the file."
            ) from None

    def keep(self, address: str, identity: str, asked: object, reply: object) -> None:
        """The first reply at an address stays, whoever else brings one."""
        row = address, identity, canonical_json(asked), canonical_json(reply), time.time()
        try:
            self._database.execute("INSERT OR IGNORE INTO completions VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise _trouble(self._path, error) from None


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
