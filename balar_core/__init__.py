"""The numerics of balar: beliefs, questions, answers and decisions.

Everything in this package is a computation on values that it is handed. It
reads no file, opens no connection and prints nothing, and it depends on
nothing but JAX, NumPy, Equinox and Optax.
"""

from balar_core._version import __version__

__all__ = ["__version__"]
