"""The trainer: one training loop for any model."""

from typing import TYPE_CHECKING

from dhilgt.utils.lazy import lazy_names

if TYPE_CHECKING:
    from dhilgt.training.batch_size import find_batch_size as find_batch_size
    from dhilgt.training.config import TrainConfig as TrainConfig
    from dhilgt.training.state import TrainResult as TrainResult
    from dhilgt.training.trainer import Trainer as Trainer

__all__ = ["TrainConfig", "TrainResult", "Trainer", "find_batch_size"]

__getattr__ = lazy_names(
    __name__,
    {
        "find_batch_size": "dhilgt.training.batch_size",
        "TrainConfig": "dhilgt.training.config",
        "TrainResult": "dhilgt.training.state",
        "Trainer": "dhilgt.training.trainer",
    },
)
