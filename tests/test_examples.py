"""The programs in the documentation run, and print what is said there."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
EXAMPLE = re.compile(
    r"<!-- runs -->\n```python\n(.*?)```.*?<!-- prints -->\n```text\n(.*?)```", re.DOTALL
)


def examples() -> list[tuple[str, str, str]]:
    return [
        (page.name, match[1], match[2])
        for page in sorted(DOCS.glob("*.md"))
        for match in EXAMPLE.finditer(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("page", "program", "expected"), examples())
def test_example_prints_what_is_said(
    page: str, program: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(program, page, "exec"), {"__name__": page})
    assert capsys.readouterr().out == expected


def test_an_oracle_of_ones_own_takes_thirty_lines() -> None:
    (program,) = [program for page, program, _ in examples() if page == "oracles.md"]
    begin, end = program.index("class Kitchen"), program.index("\n\n\ndialogue")
    assert len(program[begin:end].splitlines()) <= 30
