"""Shows the doctests of docstrings as code: each run of them becomes an `Examples` section."""

import griffe


class Doctests(griffe.Extension):
    """Marks the doctests that stand outside of any section."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite one docstring."""
        if obj.docstring:
            obj.docstring.value = marked(obj.docstring.value)


def marked(docstring: str) -> str:
    """The docstring with a heading above each run of paragraphs that begin with a prompt."""
    paragraphs: list[str] = []
    inside = False
    for paragraph in docstring.split("\n\n"):
        is_code = paragraph.lstrip("\n").startswith(">>> ")
        if is_code:
            indented = "\n".join(f"    {line}" for line in paragraph.strip("\n").split("\n"))
            paragraph = indented if inside else f"Examples:\n{indented}"
        inside = is_code
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)
