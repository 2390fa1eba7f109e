"""Processes that run the command `balar`, for tests of it."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from tests.test_session import BALL, PLANT

BALAR = [sys.executable, "-m", "llm_oracles"]


def write_problems(folder: Path) -> None:
    """Put the problems `plant.yaml` and `ball.yaml` in a folder."""
    (folder / "plant.yaml").write_text(PLANT, encoding="utf-8")
    (folder / "ball.yaml").write_text(BALL, encoding="utf-8")


def make_environment(compiled: Path) -> dict[str, str]:
    """Variables for processes that share what they compile, and hear nothing about colours."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {
        **kept,
        "JAX_COMPILATION_CACHE_DIR": str(compiled),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TERM": "xterm-256color",
    }


class Terminal:
    """`balar` at a real terminal."""

    START = (
        "import fcntl, sys, termios\n"
        "fcntl.ioctl(sys.stdin, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal\n"
        "from llm_oracles.cli import main\n"
        "main()\n"
    )

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        environment: dict[str, str],
        stdout: IO[bytes] | None = None,
    ) -> None:
        import pty  # not on every system

        self.shown = ""
        self._file, other = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.START, *arguments],
            stdin=other,
            stdout=other if stdout is None else stdout,
            stderr=other,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        os.close(other)

    def wait_for(self, text: str, seconds: float = 60) -> str:
        """What is shown from now on until `text` is."""
        new = ""
        until = time.monotonic() + seconds
        while text not in new:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} did not appear; what did:\n{self.shown}"
            if select.select([self._file], [], [], left)[0]:
                piece = self._read()
                assert piece is not None, f"ended without {text!r}; what appeared:\n{self.shown}"
                new += piece
        return new

    def type(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self._file, b"\x03")

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._read() is not None:
            pass
        os.close(self._file)
        return self._process.wait(timeout=60)

    def _read(self) -> str | None:
        try:
            piece = os.read(self._file, 65536).decode(errors="replace")
        except OSError:  # on Linux, the end of a terminal
            return None
        self.shown += piece
        return piece or None
