"""Settings that an earlier version saved, under the names that their values have now."""

from collections.abc import Mapping
from typing import Any

from dhilgt.labels.orders import former_order

# Whoever saves settings saves all of them: these are in every such list, seldom in one by hand.
_IN_ALL_LISTS = {"order", "max_batches", "max_eval_batches", "device", "threads"}
_CAME_WITH_HASHED_TIES = "table_rows"


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the same meaning in this version.

    Until orders broke their ties by a hash of the id, `order="degree"` broke them by id, which is
    "degree-id" now. A complete list of settings without `table_rows` was saved before that. A list
    written by hand has a few settings; it means what they mean now.

    Args:
        values: Settings by name, all or some.

    Example:
        >>> from dhilgt.settings.settings import Settings
        >>> saved = Settings().to_dict()
        >>> renamed(saved)["order"]
        'degree'
        >>> del saved["table_rows"]
        >>> renamed(saved)["order"], renamed({"order": "core"})
        ('degree-id', {'order': 'core'})
    """
    if not values.keys() >= _IN_ALL_LISTS or _CAME_WITH_HASHED_TIES in values:
        return dict(values)
    return {**values, "order": former_order(values["order"])}
