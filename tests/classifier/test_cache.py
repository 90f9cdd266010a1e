"""The cache: found by content, shared by processes, never in the way."""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import dhilgt
from dhilgt.classifier.cache import VARIABLE, Cache, cache_folder
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.cli.app import app
from dhilgt.store import checksums
from dhilgt.store.files import ops

EDGES = ([0, 1, 2, 3, 3], [1, 2, 3, 4, 5])
ROWS = {"size": 4}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def graph_of(edges=EDGES, **more):
    return dhilgt.Graph.from_edges(*edges, **more)


def count_builds(monkeypatch):
    """Counts how often labels and tokens are really made."""
    made = []
    for cls in (dhilgt.HubLabels, dhilgt.Tokens):
        original = cls.build.__func__

        def build(cls, *args, _original=original, **kwargs):
            made.append(cls.__name__)
            return _original(cls, *args, **kwargs)

        monkeypatch.setattr(cls, "build", classmethod(build))
    return made


def test_the_second_time_nothing_is_made(cache, monkeypatch):
    made = count_builds(monkeypatch)
    first = cache.tokens(cache.labels(graph_of()), ROWS)
    second = cache.tokens(cache.labels(graph_of()), ROWS)
    assert made == ["HubLabels", "Tokens"]
    for ours, theirs in zip(first.rows(np.arange(6)), second.rows(np.arange(6)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_found_is_what_would_be_made(cache):
    graph = graph_of()
    labels = dhilgt.HubLabels.build(graph, progress=False)
    for _ in range(2):
        assert cache.labels(graph).fingerprint == labels.fingerprint
        found = cache.tokens(cache.labels(graph), ROWS).rows(np.arange(6))
        fresh = dhilgt.Tokens.build(labels, progress=False, **ROWS).rows(np.arange(6))
        np.testing.assert_array_equal(found.ids, fresh.ids)
        np.testing.assert_array_equal(found.spd, fresh.spd)


def test_another_graph_another_setting_another_seed_is_another_entry(cache):
    labels = cache.labels(graph_of())
    cache.labels(graph_of(([0, 1], [1, 2])))
    for options in (ROWS, {"size": 5}, {"size": 4, "seed": 1}, {"size": 4, "spill": True}):
        cache.tokens(labels, options)
    cache.tokens(labels, ROWS, copies=2)
    kinds = [entry.kind for entry in cache.entries()]
    assert sorted(kinds) == ["labels"] * 2 + ["tokens"] * 5


def test_the_same_structure_under_other_ids_is_found_and_answers_by_its_own_ids(cache, monkeypatch):
    made = count_builds(monkeypatch)
    cache.labels(graph_of(), "degree-id")
    named = graph_of([[f"n{end}" for end in side] for side in EDGES])
    labels = cache.labels(named, "degree-id")
    assert made == ["HubLabels"]
    assert labels.distance("n0", "n4") == 4


def test_a_damaged_entry_is_made_again_with_a_warning(cache):
    graph = graph_of()
    cache.labels(graph)
    entry = cache.entries()[0]
    victim = max(entry.path.glob("*.npy"), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.warns(dhilgt.GraphWarning, match="damaged entry of the cache is made again"):
        labels = cache.labels(graph)
    assert labels.distance(0, 4) == 4
    assert cache.labels(graph).distance(0, 4) == 4


def path_of(cache, kind):
    return next(entry.path for entry in cache.entries() if entry.kind == kind)


def changed_array(file, change):
    array = np.load(file)
    change(array)
    np.save(file, array)


@pytest.mark.parametrize("whole_bytes", [checksums.WHOLE_BYTES, 10], ids=["small", "large"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("spd-00000.npy", lambda spd: np.copyto(spd, 1)),
        ("ids-00000.npy", lambda ids: np.copyto(ids[2:], 10**6)),
        ("ids-00000.npy", lambda ids: np.copyto(ids[:, 1:], 0)),
        ("parts-00000.npy", lambda parts: np.copyto(parts, 0)),
    ],
    ids=["distances", "ids of no node", "other ids", "parts"],
)
def test_rows_that_were_changed_are_drawn_again(cache, monkeypatch, whole_bytes, name, change):
    monkeypatch.setattr(checksums, "WHOLE_BYTES", whole_bytes)
    labels = cache.labels(graph_of())
    expected = [array.copy() for array in cache.tokens(labels, ROWS).rows(np.arange(6))]
    changed_array(path_of(cache, "tokens") / name, change)
    with pytest.warns(dhilgt.GraphWarning, match=rf"made again.*{name}"):
        tokens = cache.tokens(labels, ROWS)
    for found, wanted in zip(tokens.rows(np.arange(6)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    cache.tokens(labels, ROWS)  # without a warning


def test_the_folder_of_another_entry_is_made_again(cache):
    """Labels of the same graph in another order: each file fits the manifest."""
    expected = cache.labels(graph_of(), "random", seed=1).order.tolist()
    mine = path_of(cache, "labels")
    cache.labels(graph_of(), "random", seed=2)
    other = next(entry.path for entry in cache.entries() if entry.path != mine)
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    with pytest.warns(dhilgt.GraphWarning, match=r"made again.*manifest\.json is not the one"):
        labels = cache.labels(graph_of(), "random", seed=1)
    assert labels.order.tolist() == expected


def test_an_entry_of_another_graph_is_made_again_in_an_older_cache(cache):
    """There, no checksum of the manifest was noted."""
    mine, other = graph_of(), graph_of(([0, 1, 2, 3, 4], [1, 2, 3, 4, 5]))
    cache.labels(mine)
    path = path_of(cache, "labels")
    shutil.rmtree(path)
    dhilgt.HubLabels.build(other, progress=False).save(path)
    path.with_name(f".{path.name}.used").write_bytes(b"")
    with pytest.warns(dhilgt.GraphWarning, match="made again.*another graph"):
        assert cache.labels(mine).distance(0, 5) == 4


def test_an_entry_without_a_manifest_is_made_again(cache):
    cache.labels(graph_of())
    (path_of(cache, "labels") / "manifest.json").unlink()
    with pytest.warns(dhilgt.GraphWarning, match=r"made again.*manifest\.json is missing"):
        assert cache.labels(graph_of()).distance(0, 4) == 4


def test_labels_and_tokens_of_another_graph_are_refused(tmp_path):
    graph = graph_of(features=np.eye(6))
    other = graph_of(([0, 1, 2, 3, 4], [1, 2, 3, 4, 5]), features=np.eye(6))
    labels = dhilgt.HubLabels.build(graph, progress=False)
    tokens = dhilgt.Tokens.build(labels, path=tmp_path / "tokens", progress=False, **ROWS)
    for parts in ({"labels": labels}, {"tokens": tokens}):
        Pipeline(graph, dhilgt.Settings(), cache=None, progress=False, **parts)
        with pytest.raises(dhilgt.GraphError, match="made from another graph"):
            Pipeline(other, dhilgt.Settings(), cache=None, progress=False, **parts)
    assert len(dhilgt.Tokens.load(tmp_path / "tokens", labels=labels)) == 6
    ranked = dhilgt.HubLabels.build(graph, order=range(6), progress=False)
    with pytest.raises(dhilgt.ArtifactError, match=ranked.fingerprint):
        dhilgt.Tokens.load(tmp_path / "tokens", labels=ranked)


def test_an_interrupted_build_of_tokens_goes_on(cache, monkeypatch):
    labels = cache.labels(graph_of())
    whole = dhilgt.Tokens.build(labels, progress=False, **ROWS).rows(np.arange(6))
    monkeypatch.setattr(ops, "rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        cache.tokens(labels, ROWS)
    monkeypatch.undo()
    assert [entry.kind for entry in cache.entries() if entry.whole] == ["labels"]
    found = cache.tokens(labels, ROWS).rows(np.arange(6))
    np.testing.assert_array_equal(found.ids, whole.ids)
    assert [entry.whole for entry in cache.entries()] == [True, True]


def test_processes_that_want_the_same_thing_make_it_once(cache):
    code = (
        "import sys, dhilgt; from dhilgt.classifier.cache import Cache\n"
        "graph = dhilgt.generate(3000, 10, seed=1)\n"
        "labels = Cache(sys.argv[1]).labels(graph, threads=1)\n"
        "Cache(sys.argv[1]).tokens(labels, {'size': 8}, threads=1)\n"
        "print(labels.distance(0, 5))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(cache.root)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = [run.communicate(timeout=100) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert said[0][0] == said[1][0] != ""
    assert sorted(entry.kind for entry in cache.entries()) == ["labels", "tokens"]


def test_entries_tell_size_and_times(cache):
    before = time.time()
    graph = graph_of()
    cache.labels(graph)
    entry = cache.entries()[0]
    assert entry.num_bytes == sum(file.stat().st_size for file in entry.path.iterdir())
    assert before - 2 <= entry.made <= entry.last_used <= time.time() + 2
    old = before - 1000
    for path in (entry.path / "manifest.json", entry.path.with_name(f".{entry.key}.used")):
        os.utime(path, (old, old))
    assert cache.entries()[0].last_used == pytest.approx(old, abs=2)
    cache.labels(graph)
    assert cache.entries()[0].last_used >= before - 2


def test_clear_removes_all_or_what_was_not_used_for_long(cache):
    cache.labels(graph_of())
    assert cache.clear(older_than=3600) == []
    assert len(cache.clear(older_than=-1)) == 1
    cache.labels(graph_of())
    cache.tokens(cache.labels(graph_of()), ROWS)
    assert len(cache.clear()) == 2
    assert cache.entries() == []
    assert not list(cache.root.rglob("*.npy"))


def test_clear_leaves_what_another_process_is_making(cache):
    labels = cache.labels(graph_of())
    path = cache.entries()[0].path
    with cache._locked(path, "", False):
        assert cache.clear() == []
    assert len(cache.clear()) == 1
    assert labels.distance(0, 4) == 4  # mapped before, still readable


def test_the_folder_is_the_variable_or_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path.resolve()
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "dhilgt"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder().parts[-3:] == ("Library", "Caches", "dhilgt")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "dhilgt"


# ---- the command -------------------------------------------------------------------------------


def test_the_command_lists_and_clears(cache):
    cache.labels(graph_of())
    listed = CliRunner().invoke(app, ["cache", "--folder", str(cache.root)])
    assert listed.exit_code == 0
    assert listed.output.startswith(f"labels  {cache.entries()[0].key[:16]}")
    assert "1 entry, " in listed.output
    kept = CliRunner().invoke(
        app, ["cache", "clear", "--older-than", "1h", "--folder", str(cache.root)]
    )
    assert "0 entries, 0 B removed" in kept.output
    cleared = CliRunner().invoke(app, ["cache", "clear", "--json", "--folder", str(cache.root)])
    facts = json.loads(cleared.output)
    assert [one["kind"] for one in facts["removed"]] == ["labels"]
    assert facts["bytes"] > 0
    assert cache.entries() == []


def test_the_command_refuses_an_age_that_is_none(cache):
    result = CliRunner().invoke(app, ["cache", "clear", "--older-than", "soon"])
    assert result.exit_code == 2
    assert "30d" in result.output
