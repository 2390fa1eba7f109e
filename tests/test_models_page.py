"""The page on language models: its programs run, in order, against a real server."""

import re
from pathlib import Path

import pytest

from tests.chat_server import ChatServer

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"


def test_the_programs_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(programs) == 7
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODEL_API_KEY", "sk-123456789")
    names: dict[str, object] = {}
    with ChatServer() as server:
        for program in programs:
            exec(program.replace("http://localhost:8000/v1", server.url), names)
    shown = capsys.readouterr().out
    assert shown.startswith("{'label': 'yes'} Usage(prompt_tokens=10,")
    assert shown.splitlines()[-1].startswith("total")
    assert {path.name for path in tmp_path.iterdir()} >= {"calls.jsonl", "cache.sqlite"}
