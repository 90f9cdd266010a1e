"""Artifacts on disk: what goes in comes out, and nothing else is ever taken for it."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest

from dhilgt import __version__
from dhilgt.errors import ArtifactError
from dhilgt.store.artifact import Artifact, ArtifactWriter
from dhilgt.store.shards import ShardWriter
from tests.store.cases import kind_of

ARRAYS = {
    "indptr": np.arange(9, dtype=np.int64),
    "hubs": np.arange(40, dtype=np.uint32).reshape(10, 4),
    "dist": np.arange(40, dtype=np.uint32).reshape(10, 4)[::-1] * 7,
    "none": np.empty((0, 3), dtype=np.float32),
}
FILES = ["manifest.json", *(f"{name}.npy" for name in ARRAYS)]
PARAMS = {"order": "degree", "exponents": [-1.0, 0.5], "seed": 7, "text": "ü", "no": None}


def write(path, arrays=ARRAYS, **options):
    options = {
        "kind": "labels",
        "format_version": 2,
        "params": PARAMS,
        "fingerprint": "f1",
    } | options
    with ArtifactWriter(path, **options) as writer:
        for name, array in arrays.items():
            writer.write_array(name, array)
    return path


def open_labels(path):
    return Artifact.open(path, kind="labels", max_format=2)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return write(tmp_path_factory.mktemp("pristine") / "labels")


@pytest.fixture
def copy(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "labels")


# ---- what goes in comes out --------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [True, False])
def test_round_trip(pristine, mmap):
    artifact = open_labels(pristine)
    assert artifact.names == tuple(sorted(ARRAYS))
    for name, array in ARRAYS.items():
        loaded = artifact.array(name, mmap=mmap)
        assert loaded.dtype == array.dtype
        np.testing.assert_array_equal(loaded, array)
        assert not loaded.flags.writeable
    artifact.verify()
    assert artifact.params == PARAMS
    assert (artifact.kind, artifact.format_version, artifact.fingerprint) == ("labels", 2, "f1")
    assert artifact.library_version == __version__
    assert artifact.nbytes == sum((pristine / f"{name}.npy").stat().st_size for name in ARRAYS)
    assert "labels" in repr(artifact)
    assert kind_of(pristine) == "labels"


def test_mapped_arrays_are_not_read_into_memory(pristine):
    array = open_labels(pristine).array("hubs")
    bases = []
    while array is not None:
        bases.append(type(array).__name__)
        array = getattr(array, "base", None)
    assert "mmap" in bases


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.array([True, False]),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(20, dtype=np.int16)[::3],
        np.array(["a", "später", ""]),
        np.array([b"x", b"yz"]),
        np.zeros((3, 0, 2), dtype=np.uint8),
        np.arange(3, dtype=np.float16),
        np.arange((1 << 22) + 5, dtype=np.uint8),
        [1, 2, 3],
    ],
    ids=lambda array: f"{np.asarray(array).dtype.str}{np.shape(array)}",
)
def test_every_plain_array_is_kept(tmp_path, array):
    artifact = Artifact.open(write(tmp_path / "a", {"x": array}))
    for mmap in (True, False):
        loaded = artifact.array("x", mmap=mmap)
        assert loaded.shape == np.shape(array)
        np.testing.assert_array_equal(loaded, array)
    artifact.verify()


def test_files_are_plain_npy(pristine):
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(np.load(pristine / f"{name}.npy", allow_pickle=False), array)


def test_equal_contents_give_equal_bytes(pristine, tmp_path):
    backwards = dict(reversed(list(ARRAYS.items())))
    again = write(tmp_path / "other", backwards, params=dict(reversed(list(PARAMS.items()))))
    assert contents(again) == contents(pristine)


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.zeros(2, dtype=[("a", int)]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=complex),
    ],
    ids=["object", "record", "date", "complex"],
)
def test_what_would_need_pickle_is_not_written(tmp_path, array):
    with pytest.raises(ArtifactError, match="dtype"):
        write(tmp_path / "a", {"x": array})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../a", "/a", "-a", "a b", "ü", "x" * 201])
def test_only_plain_names_are_written(tmp_path, name):
    with pytest.raises(ArtifactError, match="name"):
        write(tmp_path / "a", {name: np.zeros(1)})
    with pytest.raises(ArtifactError, match="name"):
        ShardWriter(tmp_path / "a", kind="k", format_version=1, shard_names=[name])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "params", [{"a": np.int64(3)}, {"a": float("nan")}, {"a": {1, 2}}], ids=["numpy", "nan", "set"]
)
def test_params_are_plain_json(tmp_path, params):
    with pytest.raises(ArtifactError, match="params"):
        write(tmp_path / "a", params=params)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_array_is_named(pristine):
    with pytest.raises(ArtifactError, match=r"'nope'.*'hubs'"):
        open_labels(pristine).array("nope")


def test_another_graph_is_refused_with_both_fingerprints(pristine):
    artifact = open_labels(pristine)
    artifact.check_fingerprint("f1")
    with pytest.raises(ArtifactError, match=r"'f1'.*'f2'"):
        artifact.check_fingerprint("f2")


def test_another_kind_is_named(pristine):
    with pytest.raises(ArtifactError, match=r"'labels', not 'tokens'"):
        Artifact.open(pristine, kind="tokens")


def test_a_newer_format_says_what_is_needed(pristine):
    with pytest.raises(ArtifactError, match=rf"format 2.*up to 1.*{__version__}"):
        Artifact.open(pristine, kind="labels", max_format=1)


def test_an_older_format_says_what_to_do(pristine):
    with pytest.raises(ArtifactError, match=r"format 2.*oldest: 3.*build it again"):
        Artifact.open(pristine, kind="labels", min_format=3)


def test_verify_tells_its_progress(pristine):
    calls = []
    artifact = open_labels(pristine)
    artifact.verify(lambda done, total: calls.append((done, total)))
    assert calls[-1] == (artifact.nbytes, artifact.nbytes)


def test_a_path_without_an_artifact_says_what_is_there(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, message in [
        ("nothing", "no artifact"),
        ("file", "is a file"),
        ("folder", "without manifest"),
        ("a\0b", "no artifact"),
    ]:
        for look in (Artifact.open, kind_of):
            with pytest.raises(ArtifactError, match=message):
                look(tmp_path / name)


def test_a_replaced_artifact_is_not_mixed_with_the_older_one(copy):
    artifact = open_labels(copy)
    mapped = artifact.array("hubs")
    write(copy, {name: array + 1 for name, array in ARRAYS.items()}, overwrite=True)
    np.testing.assert_array_equal(mapped, ARRAYS["hubs"])
    with pytest.raises(ArtifactError, match=r"changed since.*open the artifact again"):
        artifact.array("dist")
    np.testing.assert_array_equal(open_labels(copy).array("dist"), ARRAYS["dist"] + 1)


# ---- damage ------------------------------------------------------------------------------------


def damages():
    for file in FILES:
        for eighth in range(8):
            yield f"cut-{eighth}/8", file, lambda data, e=eighth: data[: len(data) * e // 8]
        for count in (1, 64):
            yield f"cut-last-{count}", file, lambda data, c=count: data[:-c]
            yield f"longer-{count}", file, lambda data, c=count: data + b"\0" * c
        yield "deleted", file, None
        yield "zeroed", file, lambda data: bytes(len(data))
        yield "text", file, lambda data: (b"no data here\n" * len(data))[: len(data)]
        yield "doubled", file, lambda data: data + data
        for place in range(24):
            yield f"flip-{place}", file, lambda data, p=place: flip(data, p)


def flip(data, place):
    position = int.from_bytes(hashlib.sha256(b"%d" % place).digest()[:6]) % len(data)
    changed = bytearray(data)
    changed[position] ^= 1 << place % 8
    return bytes(changed)


DAMAGES = list(damages())


@pytest.mark.parametrize(
    ("what", "file", "change"), DAMAGES, ids=[f"{d[1]}-{d[0]}" for d in DAMAGES]
)
def test_damage_is_found(copy, what, file, change):
    path = copy / file
    data = path.read_bytes()
    path.unlink()
    if change is not None:
        path.write_bytes(change(data))
    size_changed = change is None or len(change(data)) != len(data)
    for take in (Artifact.verify, lambda artifact: artifact.array(path.stem)):
        with pytest.raises(ArtifactError, match=file):
            # A changed size is found by opening alone.
            open_labels(copy) if size_changed else take(open_labels(copy))


@pytest.mark.parametrize("first", range(len(FILES)))
@pytest.mark.parametrize("second", range(len(FILES)))
def test_swapped_files_are_found(copy, first, second):
    if first < second:
        a, b = copy / FILES[first], copy / FILES[second]
        a.rename(copy / "x")
        b.rename(a)
        (copy / "x").rename(b)
        with pytest.raises(ArtifactError, match=f"{FILES[first]}|{FILES[second]}"):
            open_labels(copy).verify()


def test_there_are_enough_damages():
    assert len(DAMAGES) >= 200


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "dangling"])
def test_what_is_no_file_is_refused_at_once(copy, file, kind):
    path = copy / file
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.name if kind == "loop" else "nowhere")
    with pytest.raises(ArtifactError, match="manifest.json" if file == FILES[0] else file):
        open_labels(copy)


# ---- evil manifests ----------------------------------------------------------------------------


def signed(body):
    """A manifest whose checksum is right: only the checks of the contents can refuse it."""
    body = {key: value for key, value in body.items() if key != "sha256"}
    text = json.dumps(body, sort_keys=True)
    body["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(body, sort_keys=True, indent=1).encode() + b"\n"


def top(**changes):
    return lambda body: signed({**body, **changes})


def entry(**changes):
    def change(body):
        body["files"]["hubs.npy"].update(changes)
        return signed(body)

    return change


def renamed(name):
    def change(body):
        body["files"][name] = body["files"].pop("hubs.npy")
        return signed(body)

    return change


def without(key):
    return lambda body: signed({k: v for k, v in body.items() if k != key})


def twice(body):
    return signed(body).replace(b'"kind": "labels"', b'"kind": "labels",\n "kind": "labels"')


EVIL = {
    "empty": lambda body: b"",
    "not-json": lambda body: b"PK\x03\x04 zip",
    "not-utf8": lambda body: b'{"layout": "\xff\xfe"}',
    "utf16": lambda body: signed(body).decode().encode("utf-16"),
    "bom": lambda body: b"\xef\xbb\xbf" + signed(body),
    "list": lambda body: b"[]",
    "null": lambda body: b"null",
    "deep-lists": lambda body: b"[" * 900_000,
    "deep-objects": lambda body: b'{"a":' * 200_000,
    "deep-params": lambda body: signed(body).replace(
        b'"params": {', b'"params": {"x": ' + b"[" * 950 + b"]" * 950 + b","
    ),
    "huge": lambda body: signed(body) + b" " * (16 << 20),
    "many-values": lambda body: b"[" + b"[]," * 1_200_000 + b"[]]",
    "long-number": lambda body: b'{"layout": ' + b"9" * 100_000 + b"}",
    "duplicate-key": twice,
    "nan": lambda body: signed(body).replace(b'"seed": 7', b'"seed": NaN'),
    "infinity": lambda body: signed(body).replace(b'"seed": 7', b'"seed": -Infinity'),
    "trailing-text": lambda body: signed(body) + b"{}",
    "other-layout": top(layout="someone-else-1"),
    "newer-layout": top(layout="dhilgt-artifact-2"),
    "layout-number": top(layout=1),
    "extra-key": top(run="rm -rf"),
    **{f"no-{key}": without(key) for key in ("kind", "format", "params", "files", "fingerprint")},
    "wrong-checksum": lambda body: signed(body).replace(b'"seed": 7', b'"seed": 8'),
    "reordered": lambda body: json.dumps(dict(reversed(list(body.items()))), indent=1).encode(),
    "kind-list": top(kind=["labels"]),
    "format-true": top(format=True),
    "format-float": top(format=2.0),
    "format-huge": top(format=10**300),
    "params-list": top(params=[]),
    "fingerprint-null": top(fingerprint=None),
    "files-list": top(files=[]),
    "name-parent": renamed("../hubs.npy"),
    "name-absolute": renamed("/etc/passwd.npy"),
    "name-folder": renamed("sub/hubs.npy"),
    "name-backslash": renamed("..\\hubs.npy"),
    "name-hidden": renamed(".hubs.npy"),
    "name-null": renamed("hu\0bs.npy"),
    "name-newline": renamed("hubs\n.npy"),
    "name-long": renamed("h" * 5000 + ".npy"),
    "name-no-suffix": renamed("hubs.pkl"),
    "name-dots": renamed("...npy"),
    "entry-null": lambda body: signed({**body, "files": {"hubs.npy": None}}),
    "entry-extra": entry(pickle=True),
    "dtype-object": entry(dtype="|O"),
    "dtype-record": entry(dtype=[["a", "<i4"]]),
    "dtype-void": entry(dtype="|V4"),
    "dtype-code": entry(dtype="__import__('os')"),
    "dtype-big-endian": entry(dtype=">u4"),
    "dtype-other": entry(dtype="<i4"),
    "dtype-newline": entry(dtype="<u4\n"),
    "shape-text": entry(shape="10"),
    "shape-negative": entry(shape=[-10, -4]),
    "shape-float": entry(shape=[10.0, 4]),
    "shape-true": entry(shape=[True, 40]),
    "shape-other": entry(shape=[4, 10]),
    "shape-overflow": entry(shape=[2**62, 2**62, 4], bytes=128),
    "shape-bomb": entry(shape=[2**40], bytes=2**42 + 128),
    "shape-huge-empty": entry(shape=[2**62, 2**62, 0], bytes=128),
    "shape-many": entry(shape=[1] * 5000),
    "bytes-wrong": entry(bytes=1),
    "bytes-float": entry(bytes=288.0),
    "sha-short": entry(sha256="ab"),
    "sha-number": entry(sha256=0),
}


@pytest.mark.parametrize("attack", EVIL)
def test_evil_manifests_are_refused(copy, attack):
    manifest = copy / "manifest.json"
    data = EVIL[attack](json.loads(manifest.read_bytes()))
    assert data != manifest.read_bytes()
    manifest.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        open_labels(copy)
    message = str(caught.value)
    assert str(copy) in message
    assert len(message) < 1000


def test_the_signature_of_the_attacks_is_right(copy):
    manifest = copy / "manifest.json"
    assert signed(json.loads(manifest.read_bytes())) == manifest.read_bytes()


def test_a_header_bomb_in_a_data_file_is_not_parsed(copy):
    path = copy / "hubs.npy"
    data = path.read_bytes()
    path.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + data[12:])
    with pytest.raises(ArtifactError, match=r"hubs.npy.*header"):
        open_labels(copy)


# ---- where it may stand ------------------------------------------------------------------------


def test_missing_parents_are_created_and_taken_back(tmp_path):
    write(tmp_path / "a" / "b" / "c")
    with pytest.raises(ArtifactError, match="dtype"):
        write(tmp_path / "d" / "e" / "f", {"x": np.array([object()])})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_existing_artifact_is_kept_unless_told(copy):
    before = contents(copy)
    with pytest.raises(ArtifactError, match=r"exists.*overwrite=True"):
        write(copy)
    assert contents(copy) == before
    write(copy, {"x": np.zeros(3)}, overwrite=True)
    assert Artifact.open(copy).names == ("x",)
    assert [path.name for path in copy.parent.iterdir()] == ["labels"]


@pytest.mark.parametrize("stranger", ["thesis.tex", "photos/", "a.npy/"])
def test_a_folder_of_something_else_is_never_replaced(tmp_path, stranger):
    folder = tmp_path / "home"
    folder.mkdir()
    if stranger.endswith("/"):
        (folder / stranger).mkdir()
    else:
        (folder / stranger).write_text("years of work")
    with pytest.raises(ArtifactError, match="not an artifact"):
        write(folder, overwrite=True)
    with pytest.raises(ArtifactError, match="not an artifact"):
        ShardWriter(folder, kind="k", format_version=1, shard_names=[], overwrite=True, resume=True)
    assert len(list(folder.iterdir())) == 1
    assert list(tmp_path.iterdir()) == [folder]


def test_an_empty_folder_is_filled(tmp_path):
    assert open_labels(write(tmp_path)).names == tuple(sorted(ARRAYS))


def test_a_link_to_a_folder_stays_a_link(copy, tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(copy)
    write(link, {"x": np.zeros(3)}, overwrite=True)
    assert link.is_symlink()
    assert Artifact.open(copy).names == ("x",)


@pytest.mark.parametrize("writer", [ArtifactWriter, ShardWriter])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("file", "is a file"),
        ("file/sub", "cannot write in"),
        ("x" * 300, "cannot"),
        ("a\0b", "not a usable path"),
        ("x.partial", "unfinished"),
        ("/", "name a folder"),
    ],
)
def test_a_place_that_cannot_be_is_refused_first(tmp_path, writer, path, message):
    (tmp_path / "file").write_text("x")
    options = {"shard_names": ["a"]} if writer is ShardWriter else {}
    with pytest.raises(ArtifactError, match=message):
        writer(tmp_path / path, kind="k", format_version=1, overwrite=True, **options)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("writer", [ArtifactWriter, ShardWriter])
def test_a_full_disk_is_told_first_with_the_numbers(tmp_path, writer):
    options = {"shard_names": ["a"]} if writer is ShardWriter else {}
    with pytest.raises(ArtifactError, match=r"needs 1000 PB, but .* free"):
        writer(tmp_path / "a", kind="k", format_version=1, need_bytes=10**18, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_block_leaves_nothing_and_passes_through(copy):
    before = contents(copy)

    def work():
        with ArtifactWriter(copy, kind="labels", format_version=2, overwrite=True) as writer:
            writer.write_array("x", np.zeros(9))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert contents(copy) == before
    assert list(copy.parent.iterdir()) == [copy]


def test_one_name_holds_one_array(tmp_path):
    with ArtifactWriter(tmp_path / "a", kind="k", format_version=1) as writer:
        writer.write_array("x", np.zeros(9))
        writer.write_array("x", np.zeros(9))
        with pytest.raises(ArtifactError, match="already written"):
            writer.write_array("x", np.ones(9))
