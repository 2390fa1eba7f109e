"""Lets `python -m llm_oracles` stand for the command `balar`."""

from .cli import main

if __name__ == "__main__":
    main()
