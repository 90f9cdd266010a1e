"""Token rows: specification, sampler, stored set."""

from dhilgt.tokens.sampler import PackedRows, TokenRows, TokenSampler
from dhilgt.tokens.spec import TokenSpec
from dhilgt.tokens.tokens import Tokens

__all__ = ["PackedRows", "TokenRows", "TokenSampler", "TokenSpec", "Tokens"]
