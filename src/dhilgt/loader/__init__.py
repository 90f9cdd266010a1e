"""Batches of token rows on a device."""

from typing import TYPE_CHECKING

from dhilgt.utils.lazy import lazy_names

if TYPE_CHECKING:
    from dhilgt.loader.batch import TokenBatch as TokenBatch
    from dhilgt.loader.copies import averaged_logits as averaged_logits
    from dhilgt.loader.loader import TokenLoader as TokenLoader

__all__ = ["TokenBatch", "TokenLoader", "averaged_logits"]

__getattr__ = lazy_names(
    __name__,
    {
        "TokenBatch": "dhilgt.loader.batch",
        "TokenLoader": "dhilgt.loader.loader",
        "averaged_logits": "dhilgt.loader.copies",
    },
)
