"""Archives from elsewhere cannot write outside their folder, nor fill the disk."""

import io
import stat
import tarfile
import zipfile

import pytest

from dhilgt.datasets import archive
from dhilgt.errors import DatasetError


def make_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members:
            out.writestr(name, data)
    return path


def make_tar(path, members):
    with tarfile.open(path, "w:gz") as out:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    return path


MAKERS = {"zip": make_zip, "tar": make_tar}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def everything_in(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_files_are_unpacked_without_their_leading_folder(make, tmp_path):
    packed = make(tmp_path / "a", [("arxiv/raw/x.csv", b"1"), ("arxiv/split/y.csv", b"22")])
    written = archive.extract(packed, tmp_path / "out", strip=1)
    assert everything_in(tmp_path / "out") == ["raw/x.csv", "split/y.csv"]
    assert (tmp_path / "out/split/y.csv").read_bytes() == b"22"
    assert sorted(written) == [tmp_path / "out/raw/x.csv", tmp_path / "out/split/y.csv"]


def test_only_what_is_wanted_is_unpacked(make, tmp_path):
    packed = make(tmp_path / "a", [("./a/x", b"1"), ("./a/y", b"2"), ("z", b"3")])
    archive.extract(packed, tmp_path / "out", strip=1, only={"y"})
    assert everything_in(tmp_path / "out") == ["y"]


@pytest.mark.parametrize(
    "name",
    [
        "../out.txt",
        "a/../../out.txt",
        "/tmp/out.txt",
        "a/..",
        "C:/out.txt",
        "..\\out.txt",
        "a//b",
        "a/./b",
    ],
)
def test_a_name_that_leads_outside_stops_everything(make, tmp_path, name):
    packed = make(tmp_path / "a", [("good.txt", b"1"), (name, b"2")])
    before = everything_in(tmp_path)
    with pytest.raises(DatasetError, match="leads outside"):
        archive.extract(packed, tmp_path / "deep" / "out")
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_special_files_in_a_tar_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        entry = tarfile.TarInfo("link")
        entry.type, entry.linkname = kind, "/etc/passwd"
        out.addfile(entry)
    with pytest.raises(DatasetError, match="a link or special file"):
        archive.extract(tmp_path / "a.tar", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_in_a_zip_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        entry = zipfile.ZipInfo("link")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        out.writestr(entry, "/etc")
    with pytest.raises(DatasetError, match="a link or special file"):
        archive.extract(tmp_path / "a.zip", tmp_path / "out")


def test_unpacking_stops_at_the_limit_and_leaves_no_part(make, tmp_path):
    packed = make(tmp_path / "a", [("small", b"1" * 10), ("bomb", bytes(5_000_000))])
    assert packed.stat().st_size < 50_000
    with pytest.raises(DatasetError, match="unpacks to more than"):
        archive.extract(packed, tmp_path / "out", max_bytes=2_000_000)
    assert everything_in(tmp_path / "out") == ["small"]


def test_the_limit_is_for_all_files_together(make, tmp_path):
    packed = make(tmp_path / "a", [(f"part{k}", bytes(400_000)) for k in range(4)])
    with pytest.raises(DatasetError, match="unpacks to more than"):
        archive.extract(packed, tmp_path / "out", max_bytes=1_000_000)
    assert everything_in(tmp_path / "out") == ["part0", "part1"]


def test_a_name_that_is_there_twice_is_refused(tmp_path):
    packed = make_tar(tmp_path / "a", [("x", b"1"), ("x", b"2")])
    with pytest.raises(DatasetError, match="twice"):
        archive.extract(packed, tmp_path / "out")


def test_a_damaged_archive_is_an_error_that_names_it(make, tmp_path):
    packed = make(tmp_path / "a", [("x", bytes(range(256)) * 50)])
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        archive.extract(packed, tmp_path / "out")
    packed.write_bytes(b"<html>")
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        archive.extract(packed, tmp_path / "out")
