"""The model DHIL-GT: its attention, its kernels and its export."""

from typing import TYPE_CHECKING

from dhilgt.utils.lazy import lazy_names

if TYPE_CHECKING:
    from dhilgt.model.config import DHILGTConfig as DHILGTConfig
    from dhilgt.model.dhilgt import DHILGT as DHILGT
    from dhilgt.model.export import export_onnx as export_onnx
    from dhilgt.model.export import export_program as export_program

__all__ = ["DHILGT", "DHILGTConfig", "export_onnx", "export_program"]

__getattr__ = lazy_names(
    __name__,
    {
        "DHILGTConfig": "dhilgt.model.config",
        "DHILGT": "dhilgt.model.dhilgt",
        "export_onnx": "dhilgt.model.export",
        "export_program": "dhilgt.model.export",
    },
)
