"""Large files: a checksum per block, of which a sample is compared when they are mapped."""

import hashlib
import json

import numpy as np
import pytest

from dhilgt import ArtifactError
from dhilgt.store import checksums
from dhilgt.store.artifact import Artifact, ArtifactWriter
from dhilgt.store.checksums import block_bytes, num_blocks, sampled_blocks

BLOCK = 256


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """A file of some kilobytes is a large one here."""
    monkeypatch.setattr(checksums, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(checksums, "_BLOCK_BYTES", BLOCK)


def written(path, values, name="rows"):
    with ArtifactWriter(path, kind="demo", format_version=1) as writer:
        writer.write_array(name, values)
    return path / f"{name}.npy"


def entry_of(file):
    return json.loads((file.parent / "manifest.json").read_text())["files"][file.name]


def take(file, **options):
    return Artifact.open(file.parent).array(file.stem, **options)


@pytest.mark.parametrize("length", [217, 1000, 1024 - 128, 5000, 2 * BLOCK * 4096])
def test_blocks_are_those_of_the_file(tmp_path, length):
    file = written(tmp_path / "one", np.arange(length, dtype=np.uint32))
    data = file.read_bytes()
    size = block_bytes(len(data))
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    expected = [hashlib.sha256(block).hexdigest() for block in blocks]
    assert len(expected) == num_blocks(len(data)) <= 4096
    assert entry_of(file).get("blocks", []) == (expected if len(data) > 1000 else [])
    np.testing.assert_array_equal(take(file), np.arange(length))


def test_a_small_file_is_described_as_before(tmp_path):
    file = written(tmp_path / "one", np.arange(3))
    assert sorted(entry_of(file)) == ["bytes", "dtype", "sha256", "shape"]


def test_a_file_of_another_build_never_fits(tmp_path):
    file = written(tmp_path / "one", np.arange(50_000))
    other = written(tmp_path / "other", np.arange(50_000) + 1)
    file.write_bytes(other.read_bytes())
    with pytest.raises(ArtifactError, match=r"rows\.npy is damaged, block \d+ of \d+"):
        take(file)


def test_damage_is_found_in_a_block_of_the_sample_and_by_reading_all(tmp_path, monkeypatch):
    file = written(tmp_path / "one", np.arange(50_000))
    data = bytearray(file.read_bytes())
    data[20 * BLOCK + 7] ^= 1
    file.write_bytes(data)
    monkeypatch.setattr("dhilgt.store.artifact.sampled_blocks", lambda count: [0, count - 1])
    take(file)  # not in the sample
    monkeypatch.setattr("dhilgt.store.artifact.sampled_blocks", lambda count: [0, 20])
    with pytest.raises(ArtifactError, match=r"rows\.npy is damaged, block 20 of 1563"):
        take(file)
    with pytest.raises(ArtifactError, match=r"rows\.npy is damaged: expected SHA-256"):
        take(file, mmap=False)
    with pytest.raises(ArtifactError, match=r"rows\.npy is damaged: expected SHA-256"):
        Artifact.open(file.parent).verify()


@pytest.mark.parametrize("place", [0, -1])
def test_the_first_and_the_last_block_are_always_compared(tmp_path, place):
    file = written(tmp_path / "one", np.arange(50_000))
    data = bytearray(file.read_bytes())
    data[place or 200] ^= 1  # after the header, which opening compares
    file.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"rows\.npy is damaged"):
        take(file)


def test_a_sample_is_spread_over_the_file_and_differs_each_time():
    for count in (1, 2, 5, 24, 25, 4096):
        drawn = list(sampled_blocks(count))
        assert {0, count - 1} <= set(drawn) <= set(range(count))
        assert len(drawn) <= checksums.SAMPLED_BLOCKS
        gaps = np.diff([0, *sorted(set(drawn)), count - 1])
        assert gaps.max() <= max(1, 2 * -(-count // 22))
    assert len({tuple(sampled_blocks(4096)) for _ in range(5)}) > 1


@pytest.mark.parametrize(
    "change",
    [
        lambda blocks: blocks[:-1],
        lambda blocks: [*blocks, blocks[0]],
        lambda blocks: [],
        lambda blocks: [blocks[0][:-1], *blocks[1:]],
        lambda blocks: [1, *blocks[1:]],
        lambda blocks: None,
        lambda blocks: "".join(blocks),
    ],
)
def test_blocks_that_are_none_are_refused(tmp_path, change):
    file = written(tmp_path / "one", np.arange(2000))
    manifest = json.loads((file.parent / "manifest.json").read_text())
    entry = manifest["files"][file.name]
    entry["blocks"] = change(entry["blocks"])
    del manifest["sha256"]
    signed = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    text = json.dumps(manifest | {"sha256": signed}, indent=1, sort_keys=True)
    (file.parent / "manifest.json").write_text(text + "\n")
    with pytest.raises(ArtifactError, match="blocks"):
        Artifact.open(file.parent)


def test_files_of_earlier_versions_have_no_blocks(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "WHOLE_BYTES", 10**9)
        file = written(tmp_path / "one", np.arange(2000))
    np.testing.assert_array_equal(take(file), np.arange(2000))
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    take(file)  # mapped, and nothing to compare a part with
    with pytest.raises(ArtifactError, match="damaged"):
        take(file, mmap=False)
