"""`dhilgt datasets` on folders that hold something, nothing, or the wrong thing."""

import json

import pytest

from dhilgt import datasets
from tests.cli.test_cli import fails, ok, run
from tests.datasets import cases as dataset_cases


@pytest.fixture(autouse=True)
def no_other_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DHILGT_DATA", str(tmp_path))


def test_list_shows_every_dataset_and_what_is_here(tmp_path):
    dataset_cases.yandex(tmp_path)
    dataset_cases.planetoid(tmp_path)
    (tmp_path / "cora/raw/ind.cora.x").unlink()
    lines = {line.split()[0]: line for line in ok("datasets", "list").stdout.splitlines()}
    assert set(lines) == {"name", *datasets.names()}
    assert lines["tolokers"].split() == [
        "tolokers", "11,758", "519,000", "10", "2", "0.595", "roc_auc", "yes",
    ]  # fmt: skip
    assert lines["cora"].endswith("7 of 8 files")
    assert lines["genius"].endswith("no")
    assert lines["genius-like"].endswith("generated")


def test_list_as_json_and_markdown():
    rows = json.loads(ok("datasets", "list", "--json").stdout)["datasets"]
    assert [row["name"] for row in rows] == list(datasets.names())
    assert rows[0]["nodes"] == 890
    lines = ok("datasets", "list", "--markdown").stdout.splitlines()
    assert lines[0].startswith("| name | nodes | edges |")
    assert len(lines) == 2 + len(rows)


def test_list_measures_what_is_here(tmp_path, monkeypatch):
    dataset_cases.genius(tmp_path)
    monkeypatch.setattr("dhilgt.datasets.files.check", lambda *_: "ok")
    rows = json.loads(ok("datasets", "list", "--measure", "--json").stdout)["datasets"]
    assert [row["name"] for row in rows] == ["genius"]
    assert (rows[0]["nodes"], rows[0]["edges"], rows[0]["isolated"]) == (4, 3, 1)


def test_show_says_what_is_known_and_which_files_are_here(tmp_path):
    folder = dataset_cases.planetoid(tmp_path)
    (folder / "ind.cora.tx").unlink()
    shown = ok("datasets", "show", "cora").stdout
    assert f"7 of 8 in {tmp_path / 'cora'}" in shown
    assert "- raw/ind.cora.tx" in shown
    assert "+ raw/ind.cora.ty" in shown
    facts = json.loads(ok("datasets", "show", "cora", "--json").stdout)
    assert facts["metrics"] == ["accuracy"]
    assert facts["files"][0]["sha256"] == datasets.info("cora").files[0].sha256


def test_show_measures_and_prints_the_hash_of_the_split(tmp_path, monkeypatch):
    dataset_cases.arxiv(tmp_path)
    monkeypatch.setattr("dhilgt.datasets.files.check", lambda *_: "ok")
    command = ("datasets", "show", "arxiv-like", "--measure", "--split", "50/25/25", "--seed", 2)
    actual = json.loads(ok(*command, "--json").stdout)
    graph = datasets.load("arxiv-like", split="50/25/25", seed=2)
    assert actual["generated_stand_in_for"] == "ogbn-arxiv"
    assert actual["measured"]["split_hash"] == datasets.split_hash(graph.masks)
    assert (actual["measured"]["edges"], actual["measured"]["train"]) == (3, 1)
    shown = ok(*command).stdout
    assert "arxiv-like (generated stand-in, not ogbn-arxiv)" in shown
    assert datasets.split_hash(graph.masks) in shown


def test_show_takes_other_shares_and_refuses_what_is_none():
    message = fails("datasets", "show", "reed98", "--measure", "--split", "official")
    assert "has no official split; pass --split random" in message


def test_a_wrong_name_is_an_error_with_the_nearest():
    for command in ("show", "fetch", "verify"):
        assert "did you mean 'citeseer'?" in fails("datasets", command, "citesear")


def test_verify_tells_damaged_from_missing_and_whole(tmp_path):
    path = dataset_cases.yandex(tmp_path)
    result = run("datasets", "verify")
    assert result.exit_code == 1
    assert "damaged    tolokers/raw/tolokers.npz" in result.stdout
    assert "files are damaged" in result.stderr
    path.unlink()
    assert ok("datasets", "verify").stdout == "no files of datasets are here\n"
    assert "files are missing" in fails("datasets", "verify", "tolokers")


def test_verify_as_json(tmp_path):
    dataset_cases.gnn_benchmark(tmp_path, "coauthor-cs", "ms_academic_cs.npz")
    actual = json.loads(ok("datasets", "verify", "--json").stdout)
    assert actual["files"] == [
        {"dataset": "coauthor-cs", "file": "raw/ms_academic_cs.npz", "status": "unchecked"}
    ]


def test_fetch_says_what_was_here_already(tmp_path):
    dataset_cases.genius(tmp_path)
    dataset_cases.linkx_splits(tmp_path / "genius/raw/genius-splits.npy", [([0], [1], [2])])
    assert "0 fetched, 2 were here" in ok("datasets", "fetch", "genius").stdout
    assert "nothing to fetch" in ok("datasets", "fetch", "mag-like").stdout


def test_fetch_into_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    message = fails("datasets", "fetch", "tolokers", "--root", tmp_path / "file")
    assert "tolokers.npz" in message
    assert "could not be fetched" in message


def test_a_missing_file_speaks_of_the_option(tmp_path):
    dataset_cases.planetoid(tmp_path)
    message = fails("datasets", "show", "cora", "--measure")
    assert "verify=False" not in message
    assert "not the file that was published" in message
