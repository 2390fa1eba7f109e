"""Advantages and objectives in plain float64 loops, written from the papers' formulas."""

import math
from collections.abc import Sequence

import numpy as np

Groups = Sequence[int]


def advantages(
    rewards: np.ndarray,
    groups: Groups,
    *,
    scale: str = "group",
    ddof: int = 1,
    eps: float = 1e-6,
) -> np.ndarray:
    """(R - mean) / (std + eps), group by group; 0 for groups without spread."""
    found = np.zeros(len(rewards))
    for group in set(groups):
        rows = [i for i, g in enumerate(groups) if g == group]
        own = [float(rewards[i]) for i in rows]
        if max(own) == min(own):
            continue
        by = {
            "group": lambda own=own: np.std(own, ddof=ddof) + eps,
            "batch": lambda: np.std(rewards, ddof=ddof) + eps,
            "none": lambda: 1.0,
        }[scale]()
        for i in rows:
            found[i] = (rewards[i] - math.fsum(own) / len(own)) / by
    return found


def token_loss(
    log_ratio: float, advantage: float, epsilon: float, epsilon_high: float, delta: float | None
) -> float:
    """-min(rA, clip(r)A), and for A < 0 not above -delta A."""
    r = math.exp(log_ratio)
    gain = min(r * advantage, min(max(r, 1 - epsilon), 1 + epsilon_high) * advantage)
    if advantage < 0 and delta is not None:
        gain = max(gain, delta * advantage)
    return -gain


def token_losses(
    logps: np.ndarray,
    old: np.ndarray,
    advantages: np.ndarray,
    *,
    epsilon: float = 0.2,
    epsilon_high: float = 0.2,
    delta: float | None = None,
    ref: np.ndarray | None = None,
    beta: float = 0.0,
) -> np.ndarray:
    """Per token; advantages of shape `(batch, tokens)`."""
    found = np.zeros(logps.shape)
    for i, t in np.ndindex(*logps.shape):
        found[i, t] = token_loss(
            logps[i, t] - old[i, t], advantages[i, t], epsilon, epsilon_high, delta
        )
        if ref is not None:
            d = ref[i, t] - logps[i, t]
            found[i, t] += beta * (math.exp(d) - d - 1)
    return found


def grpo(losses: np.ndarray, mask: np.ndarray) -> float:
    means = [row[m].sum() / m.sum() for row, m in zip(losses, mask, strict=True) if m.any()]
    return float(np.mean(means)) if means else 0.0


def dr_grpo(losses: np.ndarray, mask: np.ndarray, length: int) -> float:
    sums = [row[m].sum() / length for row, m in zip(losses, mask, strict=True) if m.any()]
    return float(np.mean(sums)) if sums else 0.0


def dapo_batch(losses: np.ndarray, mask: np.ndarray) -> float:
    return float(losses[mask].sum() / mask.sum()) if mask.any() else 0.0


def dapo_groups(losses: np.ndarray, mask: np.ndarray, groups: Groups) -> float:
    means = []
    for group in set(groups):
        rows = [i for i, g in enumerate(groups) if g == group]
        if mask[rows].any():
            means.append(losses[rows][mask[rows]].sum() / mask[rows].sum())
    return float(np.mean(means)) if means else 0.0
