"""From a graph and settings to predictions."""

from typing import TYPE_CHECKING

from dhilgt.utils.lazy import lazy_names

if TYPE_CHECKING:
    from dhilgt.classifier.cache import Cache as Cache
    from dhilgt.classifier.classifier import NodeClassifier as NodeClassifier
    from dhilgt.classifier.explaining import explain as explain
    from dhilgt.classifier.explanation import Explanation as Explanation
    from dhilgt.classifier.planning import plan as plan

__all__ = ["Cache", "Explanation", "NodeClassifier", "explain", "plan"]

__getattr__ = lazy_names(
    __name__,
    {
        "Cache": "dhilgt.classifier.cache",
        "NodeClassifier": "dhilgt.classifier.classifier",
        "Explanation": "dhilgt.classifier.explanation",
        "explain": "dhilgt.classifier.explaining",
        "plan": "dhilgt.classifier.planning",
    },
)
