"""Ways to a server that are not straight: certificates of its own, and proxies."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from llm_oracles.models import (
    ChatModel,
    InvalidEndpoint,
    Message,
    Request,
    Server,
    TransportFailure,
)
from tests.chat_server import ChatServer

HELLO = Request((Message("user", "Hello"),))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself, and its key, in one file."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the program openssl to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    command = [program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert").read_bytes() + (folder / "key").read_bytes())
    return both


def test_a_server_with_a_certificate_of_its_own_is_trusted_only_if_told_so(
    certificate: Path,
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    with ChatServer(tls=tls) as web:
        trusting = ChatModel(Server(web.url, key="sk-123456789", ca_file=certificate), "m")
        assert asyncio.run(trusting.complete(HELLO)).text == "Hello!"
        careful = ChatModel(Server(web.url), "m")
        with pytest.raises(TransportFailure, match="give the file that vouches for it") as caught:
            asyncio.run(careful.complete(HELLO))
        assert caught.value.usage.attempts == 1
    assert len(web.seen) == 1


def test_a_file_of_certificates_that_is_none_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (empty, tmp_path / "nothing.pem"):
        with pytest.raises(InvalidEndpoint, match=path.name):
            Server("https://models.example/v1", ca_file=path)


def test_a_proxy_is_used_if_it_is_given() -> None:
    with ChatServer() as proxy:
        server = Server("http://models.example/v1", proxy=proxy.url.removesuffix("/v1"))
        reply = asyncio.run(ChatModel(server, "m").complete(HELLO))
    assert reply.text == "Hello!"
    assert proxy.seen[0].path == "http://models.example/v1/chat/completions"


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        asyncio.run(ChatModel("http://models.example/v1", "m").complete(HELLO))
    assert proxy.seen[0].headers["host"] == "models.example"


def test_a_proxy_that_is_none_is_refused() -> None:
    server = Server("http://models.example/v1", proxy="carrier://pigeon:pass-word@loft")
    with pytest.raises(InvalidEndpoint, match="proxy cannot be used") as caught:
        asyncio.run(ChatModel(server, "m").complete(HELLO))
    assert "pass-word" not in str(caught.value)
