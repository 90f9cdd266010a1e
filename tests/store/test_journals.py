"""Builds that stopped half-way: what goes on, what starts over, what is refused."""

import numpy as np
import pytest

from dhilgt.errors import ArtifactError
from dhilgt.store import files
from dhilgt.store.artifact import Artifact
from dhilgt.store.files import FileOps
from dhilgt.store.shards import ShardWriter
from tests.store.cases import (
    PLAN,
    SHARDS,
    build,
    contents,
    kind_of,
    names,
    shard,
    whole_build,
    write,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_build(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def partial(tmp_path):
    """A build stopped after two shards."""
    with ShardWriter(tmp_path / "tokens", **PLAN, shard_names=SHARDS) as writer:
        for name in SHARDS[:2]:
            writer.write_shard(name, shard(name))
    assert names(tmp_path) == ["tokens.partial"]
    return tmp_path / "tokens.partial"


def resume(partial, **changes):
    options = {**PLAN, "shard_names": SHARDS, "resume": True, **changes}
    return ShardWriter(partial.with_name("tokens"), **options)


def test_an_unfinished_build_is_not_taken_for_an_artifact(partial):
    for path in (partial, partial.with_name("tokens")):
        for look in (Artifact.open, kind_of):
            with pytest.raises(ArtifactError, match="resume"):
                look(path)


def test_an_unfinished_build_is_not_lost_by_accident(partial):
    before = contents(partial)
    with pytest.raises(ArtifactError, match=r"unfinished.*resume=True.*overwrite=True"):
        resume(partial, resume=False)
    assert contents(partial) == before


def test_overwrite_starts_over(partial, whole):
    with resume(partial, resume=False, overwrite=True) as writer:
        assert writer.done == set()
        assert names(partial) == ["journal.jsonl"]
    build(partial.with_name("tokens"), resume=True)
    assert contents(partial.with_name("tokens")) == whole


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"params": {"size": 16, "seed": 3}}, r"\{'size': 8\}.*\{'size': 16\}"),
        ({"params": {"size": 8}}, r"\{'seed': 3\}.*\{\}"),
        ({"fingerprint": "f2"}, r"'f1'.*'f2'"),
        ({"kind": "labels"}, r"'tokens'.*'labels'"),
        ({"format_version": 2}, r"format 1.*2"),
        ({"shard_names": SHARDS[:3]}, r"shards.*4.*3"),
    ],
)
def test_a_build_of_something_else_is_refused_with_both(partial, changes, message):
    before = contents(partial)
    with pytest.raises(ArtifactError, match=message):
        resume(partial, **changes)
    assert contents(partial) == before


def test_another_version_is_refused_with_both(partial):
    journal = partial / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"library": "', b'"library": "9', 1))
    with pytest.raises(ArtifactError, match=r"library '9"):
        resume(partial)


@pytest.mark.parametrize("keep", range(1, 12))
def test_a_torn_last_line_is_dropped(partial, whole, keep):
    journal = partial / "journal.jsonl"
    header, first, second, rest = journal.read_bytes().split(b"\n")
    assert rest == b""
    torn = (second + b"\n")[: len(second) * keep // 11]
    journal.write_bytes(header + b"\n" + first + b"\n" + torn)
    with resume(partial) as writer:
        assert writer.done == {SHARDS[0]}
    build(partial.with_name("tokens"), resume=True)
    assert contents(partial.with_name("tokens")) == whole


@pytest.mark.parametrize("line", [b"garbage", b"[1]", b"{}", b"\xff", b'{"file": 3}', b"", b"null"])
def test_what_follows_a_bad_line_is_made_again(partial, whole, line):
    journal = partial / "journal.jsonl"
    header, first, second, _ = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([header, first, line, second, b""]))
    with resume(partial) as writer:
        assert writer.done == {SHARDS[0]}
    build(partial.with_name("tokens"), resume=True)
    assert contents(partial.with_name("tokens")) == whole


@pytest.mark.parametrize("header", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_lost_header_is_an_error(partial, header):
    (partial / "journal.jsonl").write_bytes(header + b"\n")
    with pytest.raises(ArtifactError, match=r"journal.jsonl.*overwrite=True"):
        resume(partial)


@pytest.mark.parametrize("damage", ["flip", "cut", "delete", "longer"])
def test_a_damaged_shard_is_made_again(partial, whole, damage):
    path = partial / f"{SHARDS[1]}.npy"
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "flip":
        data[-3] ^= 1
    if damage != "delete":
        path.write_bytes({"cut": data[:-5], "longer": data + b"x"}.get(damage, data))
    with resume(partial) as writer:
        assert writer.done == {SHARDS[0]}
        assert writer.dropped == (SHARDS[1],)
    build(partial.with_name("tokens"), resume=True)
    assert contents(partial.with_name("tokens")) == whole


def test_unfinished_files_are_cleared_away(partial):
    (partial / "rows-003.npy.tmp").write_bytes(b"half")
    (partial / "rows-003.npy").write_bytes(b"never journalled")
    resume(partial).close()
    assert names(partial) == ["journal.jsonl", "rows-000.npy", "rows-001.npy"]


def test_files_of_someone_else_are_left_alone(partial):
    (partial / "thesis.tex").write_text("years of work")
    for options in ({"resume": True}, {"resume": False, "overwrite": True}):
        with pytest.raises(ArtifactError, match=r"thesis.tex.*move it away"):
            resume(partial, **options)
    assert (partial / "thesis.tex").exists()


def test_a_different_shared_array_is_refused(partial):
    with resume(partial) as writer:
        writer.write_array("shared", np.arange(7))
    with resume(partial) as writer, pytest.raises(ArtifactError, match=r"'shared'.*other contents"):
        writer.write_array("shared", np.arange(8))


def test_commit_asks_for_every_shard(partial):
    with resume(partial) as writer:
        with pytest.raises(ArtifactError, match=r"2 of 4 shards.*'rows-002'"):
            writer.commit()
        with pytest.raises(ArtifactError, match="not one of the 4"):
            writer.write_shard("rows-999", np.zeros(1))


def test_resuming_a_finished_build_has_nothing_to_do(tmp_path, whole):
    path = tmp_path / "tokens"
    build(path)
    with ShardWriter(path, **PLAN, shard_names=SHARDS, resume=True, need_bytes=10**18) as writer:
        assert writer.done == set(SHARDS)
        writer.commit()
    assert contents(path) == whole
    assert names(tmp_path) == ["tokens"]
    with pytest.raises(ArtifactError, match=r"exists.*overwrite=True"):
        build(path)
    with pytest.raises(ArtifactError, match=r"'f1'.*'f2'"):
        build(path, plan={**PLAN, "fingerprint": "f2"}, resume=True)


def test_a_finished_artifact_is_not_replaced_by_resuming(partial):
    path = partial.with_name("tokens")
    write(path)
    before = contents(path)
    with pytest.raises(ArtifactError, match=r"exists.*overwrite=True"):
        resume(partial)
    assert contents(path) == before
    build(path, resume=True, overwrite=True)
    assert kind_of(path) == "tokens"


def test_what_is_written_counts_for_the_space_needed(partial, monkeypatch):
    written = sum((partial / f"{name}.npy").stat().st_size for name in SHARDS[:2])
    ops = FileOps()
    ops.free_bytes = lambda folder: 1000
    monkeypatch.setattr(files, "ops", ops)
    resume(partial, need_bytes=written + 1000).close()
    with pytest.raises(ArtifactError, match=r"needs 1 kB|needs 1\.0* kB"):
        resume(partial, need_bytes=written + 1001)
    assert len(names(partial)) == 3
