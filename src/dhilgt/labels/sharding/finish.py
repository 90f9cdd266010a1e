"""The last step of a sharded build: the parts become an artifact."""

import shutil
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError
from dhilgt.labels.sharded_store import FORMAT, KIND
from dhilgt.labels.sharding.ranked import RankedGraphFiles
from dhilgt.labels.sharding.units import LabelPart
from dhilgt.store.artifact import ArtifactWriter
from dhilgt.store.files import FileEntry


def finish(
    path: "str | PathLike[str]",
    files: RankedGraphFiles,
    parts: Sequence[LabelPart],
    *,
    folder: "str | PathLike[str]",
    radius: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write the artifact from its parts, all or nothing.

    The files of the parts are linked, not copied, where the disk allows it.

    Args:
        path: The artifact's folder.
        files: The graph in rank space.
        parts: All parts, of labels and of inverted labels, of all sides.
        folder: Where their files are.
        radius: The radius of the searches.
        overwrite: Replace older labels.

    Raises:
        ArtifactError: If a part is missing or its file is damaged.
    """
    label_bounds = _bounds(files, parts, "labels")
    holder_bounds = _bounds(files, parts, "holders")
    labels = [one for one in parts if one.kind == "labels"]
    params: dict[str, Any] = {
        "num_nodes": files.num_nodes,
        "num_entries": sum(one.num_entries for one in labels) + files.num_nodes * len(files.sides),
        "max_distance": max(one.max_distance for one in labels),
        "directed": files.directed,
        "label_bounds": label_bounds,
        "holder_bounds": holder_bounds,
    }
    if files.order_name is not None:
        params["order"] = files.order_name
    # Distances in labels have no gaps: where they end before the radius, nothing was left out.
    if radius is not None and params["max_distance"] >= radius:
        params["radius"] = radius
    with ArtifactWriter(
        path,
        kind=KIND,
        format_version=FORMAT,
        params=params,
        fingerprint=files.graph_fingerprint,
        overwrite=overwrite,
    ) as writer:
        writer.write_array("order", files.order)
        for name, array in files.ids.to_arrays().items():
            writer.write_array(name, array)
        for part in parts:
            for file in part.files:
                entry = FileEntry(file.name, file.dtype, (file.length,), file.sha256, file.blocks)
                writer.take_file(entry, Path(folder) / file.file)


def remove_work(folder: "str | PathLike[str]") -> None:
    """Remove the folder of the units' files, after `finish`."""
    shutil.rmtree(folder, ignore_errors=True)


def _bounds(files: RankedGraphFiles, parts: Sequence[LabelPart], kind: str) -> list[int]:
    """Return where the parts of a kind begin, the same on all sides."""
    found = []
    for side in files.sides:
        chosen = sorted(
            (one.part, one.first, one.last)
            for one in parts
            if one.kind == kind and one.side == side
        )
        bounds = [0]
        for number, (part, first, last) in enumerate(chosen):
            if part != number or first != bounds[-1]:
                raise ArtifactError(
                    f"the {kind} of side {side!r} from rank {bounds[-1]} are missing"
                )
            bounds.append(last)
        if bounds[-1] != files.num_nodes or len(bounds) < 2:
            raise ArtifactError(f"the {kind} of side {side!r} from rank {bounds[-1]} are missing")
        found.append(bounds)
    if any(bounds != found[0] for bounds in found):
        raise ArtifactError(f"the {kind} of the two sides are cut at other ranks")
    return found[0]
