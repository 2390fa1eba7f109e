"""Which models answer, and how: the options that `balar solve` keeps with a saved dialogue."""

import dataclasses
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..models import ChatModel, Price, Secret, Server

__all__ = ["ModelChoice", "model_options"]

KEY_VARIABLE = "BALAR_API_KEY"
CONCURRENCY = 8


@dataclass(frozen=True)
class ModelChoice:
    """Models, as they are named on the command line; None and () stand for "not said".

    Attributes:
        base_url: the address of the server.
        model: who proposes and judges.
        user_model: who plays users; the same as `model` if not said.
        verifier: who checks tables; nobody if not said.
        key_env: the environment variable that holds the key.
        key_file: the file that holds the key.
        allow_plain_http: whether the key may be sent unencrypted to another computer.
        price: what a million tokens read and written cost, as `READ,WRITTEN`.
        concurrency: how many calls at once.
        preset: the kind of problem.
        granularity: one call per table, or one per row.
        temperature: of the models.
        seed: for servers that sample reproducibly.
        repairs: how often to ask again.
        info: `USER=FILE`: what only a user knows.
        cache: the file that keeps every reply.
    """

    base_url: str | None = None
    model: str | None = None
    user_model: str | None = None
    verifier: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    allow_plain_http: bool | None = None
    price: str | None = None
    concurrency: int | None = None
    preset: str | None = None
    granularity: str | None = None
    temperature: float | None = None
    seed: int | None = None
    repairs: int | None = None
    info: tuple[str, ...] = ()
    cache: str | None = None

    def over(self, other: "ModelChoice") -> "ModelChoice":
        """This choice, and the other one where this says nothing."""
        names = [field.name for field in dataclasses.fields(self)]
        said = {name: getattr(self, name) for name in names}
        return dataclasses.replace(
            other, **{name: value for name, value in said.items() if value not in (None, ())}
        )

    @property
    def origin(self) -> str:
        """The choice as it would be typed, kept with a saved dialogue; paths are made absolute."""
        words = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            for item in value if isinstance(value, tuple) else (value,):
                option = f"--{field.name.replace('_', '-')}"
                if item is True:
                    words.append(option)
                elif item is not None:
                    words.append(f"{option}={_absolute(field.name, item)}")
        return shlex.join(words)

    @classmethod
    def from_origin(cls, origin: str) -> "ModelChoice":
        """The choice that `origin` was made from.

        Raises:
            click.UsageError: the text is no such choice.

        >>> choice = ModelChoice("http://a/v1", info=("Ann=/a b.txt",), allow_plain_http=True)
        >>> ModelChoice.from_origin(choice.origin) == choice
        True
        """
        try:
            choice = _reader.main(shlex.split(origin), standalone_mode=False)
        except (ValueError, click.ClickException):
            choice = None
        if not isinstance(choice, cls):
            raise click.UsageError(
                "The saved dialogue does not say which models it is held with. Was it begun with "
                "balar run? Then go on with: balar run --resume FILE."
            )
        return choice

    @property
    def at_once(self) -> int:
        """How many calls are made at once."""
        return CONCURRENCY if self.concurrency is None else self.concurrency

    def private_files(self) -> dict[str, Path]:
        """User -> the file that holds what only the user knows.

        Raises:
            click.UsageError: not of the form USER=FILE, or a user comes twice.
        """
        return {name: Path(file) for name, file in pairs("--info", "USER=FILE", self.info).items()}

    def open(self) -> "dict[str, ChatModel]":
        """The models, by what they are for: `""` for everything that has no model of its own.

        Raises:
            click.UsageError: no server or no model is named, or a price is none.
            ModelError: the address or the key cannot be used.
        """
        from ..models import ChatModel

        if self.base_url is None or self.model is None:
            raise click.UsageError(
                "Say which model answers, and where: --base-url URL --model NAME."
            )
        server = self._server(self.base_url)
        named = {"": self.model, "user": self.user_model, "verify": self.verifier}
        return {purpose: ChatModel(server, name) for purpose, name in named.items() if name}

    def _server(self, base_url: str) -> "Server":
        from ..models import Limits, Server

        return Server(
            base_url,
            key=self._key(),
            price=self._price(),
            limits=Limits(concurrency=self.at_once),
            allow_plain_http=bool(self.allow_plain_http),
        )

    def _key(self) -> "Secret | None":
        from ..models import Secret

        if self.key_file is not None:
            return Secret.from_file(Path(self.key_file))
        if self.key_env is not None or KEY_VARIABLE in os.environ:
            return Secret.from_environment(self.key_env or KEY_VARIABLE)
        return None

    def _price(self) -> "Price | None":
        from ..models import Price

        if self.price is None:
            return None
        try:
            read, written = map(float, self.price.split(","))
        except ValueError:
            raise click.UsageError(
                f"--price is {self.price!r}; give what a million tokens cost, read and written, "
                "as in --price 0.5,1.5."
            ) from None
        return Price(read, written)


def pairs(option: str, form: str, given: tuple[str, ...]) -> dict[str, str]:
    """What was given as NAME=VALUE.

    Raises:
        click.UsageError: something is not of this form, or a name comes twice.
    """
    found: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise click.UsageError(f"{option} is {item!r}; it has the form {form}.")
        if name in found:
            raise click.UsageError(f"{option} is given twice for {name!r}; give it once.")
        found[name] = value
    return found


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about models, handed over as one `models`."""
    names = [field.name for field in dataclasses.fields(ModelChoice)]

    @wraps(command)
    def with_choice(**given: Any) -> Any:
        choice = ModelChoice(**{name: given.pop(name) for name in names})
        return command(models=choice, **given)

    decorated: Callable[..., Any] = with_choice
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _absolute(field: str, value: object) -> object:
    """The value with its path made absolute, if it holds one."""
    if field == "info":
        name, _, file = str(value).partition("=")
        return f"{name}={Path(file).resolve()}"
    return Path(str(value)).resolve() if field in ("cache", "key_file") else value


_OPTIONS = (
    click.option(
        "--base-url", metavar="URL", help="The server, usually with /v1 at the end of its address."
    ),
    click.option("--model", metavar="NAME", help="The model that proposes and judges."),
    click.option("--user-model", metavar="NAME", help="The model that plays users (see --info)."),
    click.option("--verifier", metavar="NAME", help="A model that checks every table once."),
    click.option(
        "--key-env",
        metavar="VARIABLE",
        help=f"The environment variable that holds the key.  [default: {KEY_VARIABLE} if set]",
    ),
    click.option("--key-file", metavar="FILE", help="A file that holds the key."),
    click.option(
        "--allow-plain-http",
        is_flag=True,
        default=None,
        help="Send the key over http:// to another computer.",
    ),
    click.option(
        "--price",
        metavar="READ,WRITTEN",
        help="What a million tokens cost, read and written, to tell the cost.",
    ),
    click.option(
        "--concurrency", type=int, metavar="N", help=f"Calls at once.  [default: {CONCURRENCY}]"
    ),
    click.option(
        "--preset",
        type=click.Choice(("general", "detective", "puzzle", "clinical")),
        help="The kind of problem.  [default: general]",
    ),
    click.option(
        "--granularity",
        type=click.Choice(("table", "row")),
        help="One call for a whole table, or one for each row.  [default: table]",
    ),
    click.option("--temperature", type=float, metavar="T", help="Of the models.  [default: 0]"),
    click.option("--seed", type=int, metavar="N", help="For servers that sample reproducibly."),
    click.option(
        "--repairs",
        type=int,
        metavar="K",
        help="How often to ask again for what is missing.  [default: 2]",
    ),
    click.option(
        "--info",
        metavar="USER=FILE",
        multiple=True,
        help="A user whom a model plays, who knows what is in FILE.",
    ),
    click.option(
        "--cache", metavar="FILE", help="Keep every reply of the models in FILE, and use it."
    ),
)


@click.command("origin")
@model_options
def _reader(models: ModelChoice) -> ModelChoice:
    return models
