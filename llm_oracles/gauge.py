"""One line at the terminal that tells how far the calls to models are, while they are made."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .elicitation import OnProgress, Progress
from .models import Usage

__all__ = ["Gauge", "summary"]


def summary(progress: Progress) -> str:
    """How many of how many calls, with tokens and cost where they are known.

    >>> summary(Progress(12, 3, Usage(1000, 500, 3, 3, cost=0.0125)))
    '3 of 12 calls, 1,500 tokens, cost 0.0125'
    """
    parts = [f"{progress.done} of {progress.begun} calls", f"{progress.usage.tokens:,} tokens"]
    if progress.usage.cost is not None:
        parts.append(f"cost {progress.usage.cost:.4f}")
    return ", ".join(parts)


class Gauge:
    """Sums up the progress of everybody who asks models, and shows it where a person looks.

    The line is there only while calls are under way, and only on a terminal.

    Args:
        console: where it is shown.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parts: list[Progress] = []
        self._live: Live | None = None

    @property
    def progress(self) -> Progress:
        """How far all calls are together."""
        return Progress(
            sum(part.begun for part in self._parts),
            sum(part.done for part in self._parts),
            sum((part.usage for part in self._parts), Usage()),
        )

    def watch(self) -> OnProgress:
        """A function for somebody who asks models to report to."""
        position = len(self._parts)
        self._parts.append(Progress())

        def report(progress: Progress) -> None:
            self._parts[position] = progress
            self._show()

        return report

    def hide(self) -> None:
        """Take the line away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self) -> None:
        progress = self.progress
        if not self._console.is_terminal or self._console.quiet:
            return
        if progress.done == progress.begun:
            self.hide()
            return
        line = Text(summary(progress), "dim")
        if self._live is None:
            self._live = Live(
                line,
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(line, refresh=True)
