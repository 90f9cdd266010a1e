"""Settings that earlier versions saved keep their meaning."""

import json
from types import SimpleNamespace

import pytest

from dhilgt.classifier import origin
from dhilgt.errors import ConfigError
from dhilgt.settings import Settings, read_settings, write_settings
from dhilgt.settings.earlier import renamed
from dhilgt.store.exports import Export, read_export, write_beside
from dhilgt.store.files import canonical_json
from tests.byte_cases import digest
from tests.classifier.cases import community_graph

FORMER = {"degree": "degree-id", "core": "core-id", "closeness": "closeness-id", "random": "random"}


def before_hashed_ties(**changes):
    """All settings as version 0.1 saved them."""
    values = Settings(**changes).to_dict()
    later = ("hop_channels", "neighbor_inputs", "hub_inputs", "class_inputs", "table_rows")
    return {name: value for name, value in values.items() if name not in later}


@pytest.mark.parametrize(("then", "now"), FORMER.items())
def test_a_complete_list_from_before_has_the_order_under_its_name_of_today(then, now):
    saved = before_hashed_ties(order=then)
    assert renamed(saved) == saved | {"order": now}
    assert renamed(Settings(order=then).to_dict())["order"] == then


def test_a_list_by_hand_means_what_it_says():
    assert renamed({"order": "degree", "threads": 2}) == {"order": "degree", "threads": 2}
    assert renamed({}) == {}


def test_files_of_runs_are_told_from_files_by_hand(tmp_path):
    write_settings(tmp_path / "now.yaml", Settings())
    lines = (tmp_path / "now.yaml").read_text().splitlines(keepends=True)
    names = before_hashed_ties().keys() | {"tokens", "model", "features", "training", "run"}
    kept = [line for line in lines if not line.strip() or line.split(":")[0].strip() in names]
    (tmp_path / "then.yaml").write_text("".join(kept))
    (tmp_path / "by-hand.yaml").write_text("order: degree\nepochs: 3\n")
    orders = [read_settings(tmp_path / f"{name}.yaml")["order"] for name in ("then", "now")]
    assert orders == ["degree-id", "degree"]
    assert read_settings(tmp_path / "by-hand.yaml")["order"] == "degree"


@pytest.mark.parametrize(("format_", "order"), [(2, "degree-id"), (3, "degree")])
def test_an_export_from_before_names_its_order_as_today(tmp_path, format_, order):
    model = tmp_path / "model.onnx"
    model.write_bytes(b"a model")
    beside = write_beside(model, Export({"order": "degree"}, None, None))
    facts = json.loads(beside.read_text()) | {"format": format_}
    del facts["facts_sha256"]
    facts["facts_sha256"] = digest(canonical_json(facts))
    beside.write_text(json.dumps(facts))
    assert read_export(model).facts["order"] == order


def test_a_run_from_before_goes_on_with_the_order_it_began_with(tmp_path, monkeypatch):
    graph = community_graph()
    began = origin.input_digests(graph)
    saved = {"inputs": began, "settings": before_hashed_ties()}
    folder = SimpleNamespace(path=tmp_path, checkpoints=SimpleNamespace(values=lambda: saved))
    monkeypatch.setattr(origin, "RunFolder", lambda path: folder)
    now = {"inputs": began, "settings": Settings(order="degree-id").to_dict()}
    origin.check_origin(tmp_path, now)
    now["settings"]["order"] = "degree"
    with pytest.raises(ConfigError, match=r"order = 'degree', but .* has order = 'degree-id';"):
        origin.check_origin(tmp_path, now)
