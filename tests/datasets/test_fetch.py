"""Fetching, from a server on this machine that behaves well or badly."""

import dataclasses
import hashlib
import http.server
import threading
import zipfile

import pytest

from dhilgt.datasets import fetch
from dhilgt.datasets.files import Files, data_folder
from dhilgt.datasets.registry import Archive, DatasetInfo, Facts, RawFile
from dhilgt.errors import DatasetError

DATA = bytes(range(256)) * 4000  # a megabyte


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `content`; `plan` says how each request in turn goes wrong."""

    def do_GET(self):
        server = self.server
        server.seen.append(self.headers.get("Range"))
        how = server.plan.pop(0) if server.plan else "well"
        if how == "missing":
            self.send_error(404)
            return
        body = server.content
        expected = self.headers.get("Range")
        start = int(expected.removeprefix("bytes=").removesuffix("-")) if expected else 0
        if start >= len(body) and expected:
            self.send_error(416)
            return
        if how == "web page":
            body, start = b"<!DOCTYPE html><p>sign in</p>", 0
        elif how == "other bytes":
            body, start = b"x" * len(body), 0
        elif how == "ignores ranges":
            start = 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        self.wfile.write(rest[: len(rest) // 2] if how == "breaks off" else rest)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    import pooch.core

    monkeypatch.setattr(pooch.core.time, "sleep", lambda _: None)
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    running.content, running.plan, running.seen = DATA, [], []
    running.url = f"http://127.0.0.1:{running.server_port}/data.bin"
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def dataset(url, **more):
    file = RawFile("raw/data.bin", url, hashlib.sha256(DATA).hexdigest(), len(DATA))
    file = dataclasses.replace(file, **more)
    return DatasetInfo("toy", "", "yandex", Facts(), files=(file,), folders=("toy",))


def get(server, root, **more):
    return Files(dataset(server.url, **more), root).path("raw/data.bin")


def names_in(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_file_is_fetched_once_and_found_afterwards(server, tmp_path):
    path = get(server, tmp_path)
    assert path == tmp_path / "toy/raw/data.bin"
    assert path.read_bytes() == DATA
    assert get(server, tmp_path) == path
    assert server.seen == [None]
    assert names_in(tmp_path) == ["toy/raw/data.bin"]


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(server, tmp_path):
    server.plan = ["breaks off", "breaks off"]
    assert get(server, tmp_path).read_bytes() == DATA
    starts = [0 if seen is None else int(seen[6:-1]) for seen in server.seen]
    assert starts[0] == 0
    assert starts[0] < starts[1] < starts[2]
    assert names_in(tmp_path) == ["toy/raw/data.bin"]


def test_what_arrived_is_kept_for_the_next_run(server, tmp_path):
    server.plan = ["breaks off"] * (1 + fetch.RETRIES)
    with pytest.raises(DatasetError, match="broke off"):
        get(server, tmp_path)
    assert names_in(tmp_path) == ["toy/raw/data.bin.part"]
    assert get(server, tmp_path).read_bytes() == DATA
    assert server.seen[-1] is not None


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.plan = ["breaks off", "ignores ranges"]
    assert get(server, tmp_path).read_bytes() == DATA
    assert len(server.seen) == 2


def test_a_rest_that_fits_nothing_is_dropped(server, tmp_path):
    (tmp_path / "toy/raw").mkdir(parents=True)
    (tmp_path / "toy/raw/data.bin.part").write_bytes(DATA + b"more")
    assert get(server, tmp_path).read_bytes() == DATA


def test_a_rest_of_another_file_does_not_spoil_the_result(server, tmp_path):
    (tmp_path / "toy/raw").mkdir(parents=True)
    (tmp_path / "toy/raw/data.bin.part").write_bytes(b"something else")
    assert get(server, tmp_path).read_bytes() == DATA


def test_wrong_content_is_tried_again_and_then_refused(server, tmp_path):
    server.plan = ["other bytes"]
    assert get(server, tmp_path).read_bytes() == DATA
    server.plan = ["other bytes"] * (1 + fetch.RETRIES)
    with pytest.raises(DatasetError, match="could not be fetched") as caught:
        get(server, tmp_path / "other")
    assert server.url in str(caught.value)
    assert names_in(tmp_path / "other") == []


@pytest.mark.parametrize("record", [{}, {"sha256": None}])
def test_a_web_page_in_place_of_the_file_is_refused(server, tmp_path, record):
    server.plan = ["web page"]
    with pytest.raises(DatasetError, match="web page"):
        get(server, tmp_path, **record)
    assert not (tmp_path / "toy/raw/data.bin").exists()


def test_an_address_that_is_gone_says_where_to_put_the_file(server, tmp_path):
    server.plan = ["missing"] * (1 + fetch.RETRIES)
    with pytest.raises(DatasetError, match="404") as caught:
        get(server, tmp_path)
    assert str(tmp_path / "toy/raw/data.bin") in str(caught.value)


def test_no_network_says_so(server, tmp_path):
    info = dataset("http://127.0.0.1:9/data.bin")  # nobody listens there
    with pytest.raises(DatasetError, match=r"no connection to 127\.0\.0\.1:9"):
        Files(info, tmp_path).path("raw/data.bin")


def test_git_names_check_content_where_no_hash_is_known(server, tmp_path):
    blob = hashlib.sha1(b"blob %d\0" % len(DATA) + DATA).hexdigest()
    assert get(server, tmp_path, sha256=None, git_blob=blob).read_bytes() == DATA
    with pytest.raises(DatasetError, match="Git blob"):
        get(server, tmp_path / "other", sha256=None, git_blob="0" * 40)
    assert names_in(tmp_path / "other") == []


def test_without_download_nothing_is_asked(server, tmp_path):
    with pytest.raises(DatasetError, match=r"needs the file data\.bin"):
        Files(dataset(server.url), tmp_path, download=False).path("raw/data.bin")
    assert server.seen == []


def archived(server, tmp_path, names):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as out:
        for name in names:
            out.writestr(name, DATA[:100])
    server.content = (tmp_path / "packed.zip").read_bytes()
    info = dataset(None, sha256=None)
    return dataclasses.replace(info, archive=Archive(server.url, 1, "", 1 << 20))


def test_a_file_comes_out_of_its_archive(server, tmp_path):
    info = archived(server, tmp_path, ["top/raw/data.bin", "top/raw/other.bin"])
    path = Files(info, tmp_path / "root").path("raw/data.bin")
    assert path.read_bytes() == DATA[:100]
    assert names_in(tmp_path / "root") == ["toy/raw/data.bin"]


def test_an_archive_that_would_write_elsewhere_is_refused(server, tmp_path):
    info = archived(server, tmp_path, ["top/raw/data.bin", "top/../../../escaped"])
    with pytest.raises(DatasetError, match="leads outside"):
        Files(info, tmp_path / "root").path("raw/data.bin")
    assert names_in(tmp_path / "root") == []
    assert not (tmp_path / "escaped").exists()


def test_an_archive_without_the_file_says_so(server, tmp_path):
    info = archived(server, tmp_path, ["top/other"])
    with pytest.raises(DatasetError, match="nor in the archive"):
        Files(info, tmp_path / "root").path("raw/data.bin")


# ---- where files are looked for ----------------------------------------------------------------


@pytest.mark.parametrize("place", ["toy/raw", "toy", "extra/toy/raw", "extra/toy"])
def test_files_are_found_in_either_layout(tmp_path, place):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "data.bin").write_bytes(DATA)
    actual = Files(dataset(None), tmp_path, download=False).path("raw/data.bin")
    assert actual == tmp_path / place / "data.bin"


def test_the_folder_is_the_argument_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_DATA", str(tmp_path / "variable"))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "variable"
    monkeypatch.delenv("DHILGT_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    assert data_folder().parts[-2:] == ("dhilgt", "datasets")
