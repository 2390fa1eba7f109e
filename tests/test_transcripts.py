"""The transcripts in the documentation are what `balar` really prints."""

import io
import re
import sys
from pathlib import Path

import pytest

from llm_oracles.cli import main

ROOT = Path(__file__).resolve().parents[1]
TRANSCRIPT = re.compile(r"<!-- transcript -->\n```console\n\$ balar (.*)\n((?:.*\n)*?)```")


def transcripts() -> list[tuple[str, str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        (page.name, match[1], match[2])
        for page in pages
        for match in TRANSCRIPT.finditer(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("page", "arguments", "expected"), transcripts())
def test_transcript_is_what_is_printed(
    page: str,
    arguments: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = "".join(line[2:] + "\n" for line in expected.splitlines() if line[:2] == "> ")
    monkeypatch.setenv("COLUMNS", "76")
    monkeypatch.setattr(sys, "argv", ["balar", *arguments.split()])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(answers.encode())))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = "".join(line.rstrip() + "\n" for line in capsys.readouterr().out.splitlines())
    assert printed == expected


def test_there_are_transcripts() -> None:
    assert {page for page, _, _ in transcripts()} == {"README.md", "running.md"}
