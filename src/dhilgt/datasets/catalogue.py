"""The catalogue of datasets, read from catalogue.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from dhilgt.datasets.registry import Archive, DatasetInfo, Facts, RawFile


@cache
def catalogue() -> dict[str, DatasetInfo]:
    """Return all datasets by name: the paper's twelve first, the stand-ins last."""
    text = (files("dhilgt.datasets") / "catalogue.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    entries = {
        name: _dataset(name, {**tables["family"][values["family"]], **values})
        for name, values in tables["dataset"].items()
    }
    for name, values in tables["standin"].items():
        entries[name] = _standin(name, entries[values["stands_in_for"]], values)
    return entries


def _dataset(name: str, values: Mapping[str, Any]) -> DatasetInfo:
    rest = dict(values)
    del rest["family"]
    base_url = rest.pop("base_url", None)
    archive = rest.pop("archive", None)
    return DatasetInfo(
        name=name,
        facts=Facts(**rest.pop("facts", {})),
        files=tuple(_raw_file(file, base_url) for file in rest.pop("files")),
        folders=tuple(rest.pop("folders", [name])),
        metrics=tuple(rest.pop("metrics", ["accuracy"])),
        archive=None if archive is None else Archive(**archive),
        **rest,
    )


def _raw_file(values: Mapping[str, Any], base_url: str | None) -> RawFile:
    rest = dict(values)
    file = RawFile(rest.pop("path"), repacked=tuple(rest.pop("repacked", ())), **rest)
    if file.url is None and base_url is not None:
        file = replace(file, url=f"{base_url}/{file.name}")
    return file


def _standin(name: str, real: DatasetInfo, values: Mapping[str, Any]) -> DatasetInfo:
    """Return a generated graph in place of a real one, of the same size.

    With ``real_graph = true`` only its features are generated, so its files are still needed.
    """
    own = {key: values[key] for key in ("about", "note")}
    facts = replace(real.facts, homophily=values["homophily"])
    if values.get("real_graph", False):
        kept = tuple(file for file in real.files if file.needed_for != "features")
        return replace(
            real, name=name, reader="standin", facts=facts, files=kept, in_paper=False,
            standin_for=real.name, **own,
        )  # fmt: skip
    return DatasetInfo(
        name=name, reader="standin", facts=facts, metrics=real.metrics,
        paper_split=values.get("paper_split", "60/20/20"), source="made here, from a seed",
        licence="none needed", citation="none", standin_for=real.name, **own,
    )  # fmt: skip
