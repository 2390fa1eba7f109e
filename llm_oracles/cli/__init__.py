"""The command `balar`.

Whatever takes time to import is imported inside the commands, so that help comes at once.
"""

from .main import main

__all__ = ["main"]
