"""What papers say that systems cost, to hold measured growth against."""

from __future__ import annotations

from dataclasses import dataclass

from dhilgt.benchmark.recipe import OURS


@dataclass(frozen=True)
class Claim:
    """A bound, as a sum of products.

    Attributes:
        text: In the notation of the documentation: n nodes, m edges, n_b nodes of a batch, s size
            of a token, L layers, K hops, F width, F₀ features.
        nodes: The power of n that it allows while m grows with n.
        edges: The power of m that it allows while n stays.

    Example:
        >>> claim("dhilgt", "epoch")
        Claim(text='L n F² + L n s² F', nodes=1, edges=0)
        >>> claim("dhilgt", "inference") is None
        True
    """

    text: str
    nodes: int
    edges: int


QUANTITIES = ("precompute", "epoch", "inference", "host", "gpu")
NONE = Claim("none", 0, 0)
"""The paper has no such stage, or only work that it does not count, such as degrees."""
_KERNEL = Claim("L n F² + L m F", 1, 1)
_HOST, _GPU = Claim("n F + m", 1, 1), Claim("L n_b F + m", 1, 1)
_ROWS, _BATCH = Claim("n F + n s²", 1, 0), Claim("L n_b F + n_b s²", 0, 0)

# Rows of the paper's table of complexities: before training, an epoch, host memory, GPU memory.
# Batches of the systems with a term of m are whole graphs here: n_b is n.
_PAPER: dict[str, tuple[Claim, Claim, Claim, Claim]] = {
    "difformer": (NONE, _KERNEL, _HOST, _GPU),
    "polynormer": (NONE, _KERNEL, _HOST, _GPU),
    "nagphormer": (
        Claim("L m F₀", 1, 1),
        Claim("L n F²", 1, 0),
        Claim("L n F", 1, 0),
        Claim("L n_b F²", 0, 0),
    ),
    "ansgt": (Claim("n s² + L m", 1, 1), Claim("L n F² + L n s² F", 1, 0), _ROWS, _BATCH),
    "goat": (Claim("n F", 1, 0), _KERNEL, _HOST, Claim("L n_b² + L n_b F + m", 1, 1)),
    "hsgt": (
        Claim("n + L m", 1, 1),
        _KERNEL,
        Claim("n F + L m", 1, 1),
        Claim("L n_b² + L n_b F + L m", 1, 1),
    ),
    OURS: (Claim("n s³ + m s", 1, 1), Claim("L n F² + L n s² F", 1, 0), _ROWS, _BATCH),
}
# Systems that the paper's table leaves out: what the pages of the baselines say.
_OWN: dict[str, tuple[Claim, Claim]] = {
    "gcn": (Claim("m", 1, 1), _KERNEL),
    "sage": (Claim("m", 1, 1), _KERNEL),
    "sgformer": (Claim("m", 1, 1), _KERNEL),
    "linkx": (NONE, Claim("n F² + m F", 1, 1)),
    "mlp": (NONE, Claim("n F²", 1, 0)),
}


def claim(system: str, quantity: str) -> Claim | None:
    """Gives what is claimed of a system, None where nothing is.

    Args:
        system: Its name.
        quantity: One of `QUANTITIES`.
    """
    names = [name for name in QUANTITIES if name != "inference"]
    row = _PAPER.get(system) or _OWN.get(system) or ()
    return dict(zip(names, row, strict=False)).get(quantity)


def in_paper(system: str) -> bool:
    """Says whether the claims of a system are the paper's."""
    return system in _PAPER
