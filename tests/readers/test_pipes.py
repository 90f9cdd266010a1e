"""Files that can be read once: pipes, process substitutions, standard input."""

import gzip
import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from dhilgt import Graph, GraphError
from dhilgt.readers import files, pipes

pytestmark = pytest.mark.filterwarnings("error::dhilgt.GraphWarning")


@pytest.fixture
def fifo(tmp_path):
    """Make named pipes that hand out some bytes once."""
    threads = []

    def make(content, name="pipe"):
        path = tmp_path / name
        if not path.exists():
            os.mkfifo(path)
        threads.append(threading.Thread(target=path.write_bytes, args=(content,)))
        threads[-1].start()
        return path

    yield make
    for thread in threads:
        thread.join()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def test_edges_from_pipes_of_every_format(fifo):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet = io.BytesIO()
    pq.write_table(pa.table({"u": [1, 2], "v": [2, 30]}), parquet)
    for content in (
        b"1,2\n2,30\n",
        gzip.compress(b"1 2\n2 30\n"),
        npz(src=np.array([1, 2]), dst=np.array([2, 30])),
        parquet.getvalue(),
        b"%%MatrixMarket matrix coordinate pattern general\n30 30 2\n1 2\n2 30\n",
    ):
        assert Graph.read(fifo(content)).num_edges == 4


def test_all_files_of_a_graph_from_pipes(fifo):
    graph = Graph.read(
        fifo(b"a,b\nb,c\n", "edges"),
        nodes=fifo(b"c\nb\na\nz\n", "nodes"),
        features=fifo(npy(np.arange(4.0).reshape(4, 1)), "features"),
        labels=fifo(b"id,label\na,x\nz,y\n", "labels"),
        masks=fifo(b"id,part\na,train\nz,test\n", "split"),
    )
    assert graph.features.ravel().tolist() == [2, 1, 0, 3]
    assert graph.labels.tolist() == [0, -1, -1, 1]
    assert graph.masks["test"].tolist() == [False, False, False, True]
    packed = Graph.read(fifo(b"a,b\n"), features=fifo(npz(x=np.ones((2, 3))), "x"))
    assert packed.features.shape == (2, 3)


def test_a_pipe_is_read_anew_by_the_next_call(fifo):
    assert Graph.read(fifo(b"1,2\n")).nodes.tolist() == [1, 2]
    assert Graph.read(fifo(b"3,4\n")).nodes.tolist() == [3, 4]


def test_an_empty_or_bad_pipe_is_refused_by_its_name(fifo):
    with pytest.raises(GraphError, match=r"pipe is empty"):
        Graph.read(fifo(b""))
    with pytest.raises(GraphError, match=r"pipe, line 2: '3' has too few columns"):
        Graph.read(fifo(b"1,2\n3\n"))


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1,2\n2,x\nx\n")))
    with pytest.raises(GraphError, match=r"standard input, line 3"):
        Graph.read("-")


def test_copies_are_removed(fifo):
    with pipes.kept():
        copy = pipes.on_disk(files.check_file(fifo(b"1,2\n")))
        assert copy.read_bytes() == b"1,2\n"
        with pipes.kept():  # the same copy
            assert pipes.on_disk(files.check_file(copy.parent / "0")) == copy
        assert copy.exists()
    assert not copy.parent.exists()


def test_a_file_is_read_where_it_is(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("1,2\n")
    with pipes.kept():
        assert pipes.on_disk(files.check_file(file)) == file
    assert pipes.name_of(file) == file


def test_a_pipe_outside_of_a_call_is_refused(tmp_path):
    os.mkfifo(tmp_path / "p")
    with pytest.raises(GraphError, match="p is a pipe; save it to a file"):
        files.check_file(tmp_path / "p")
    assert pipes.is_pipe(Path("/dev/null"))


# ---- lists of ids ------------------------------------------------------------------------------


LISTS = {
    "signs": ("#a\nb\n#c\n", ["#a", "b", "#c"], ()),
    "only signs": ("#a\n#b\n", ["#a", "#b"], ()),
    "a remark": ("# all nodes\na\nb\n", ["a", "b"], ("skipped 1 line",)),
    "a header behind a sign": ("#id\na\nb\n", ["a", "b"], ("skipped 1 line",)),
    "a remark above signs": ("# tags\n#a\n#b\n", ["#a", "#b"], ("skipped 1 line",)),
}


@pytest.mark.parametrize("case", LISTS)
def test_ids_with_signs_in_lists(tmp_path, case):
    content, ids, notes = LISTS[case]
    nodes = tmp_path / "nodes.txt"
    nodes.write_text(content)
    edges = tmp_path / "edges.csv"
    edges.write_text(f"{ids[1]},{ids[0]}\n")
    graph = Graph.read(edges, nodes=nodes, header=False, comment=None)
    assert sorted(graph.nodes.tolist()) == sorted(ids)
    assert all(any(note in one for one in graph.notes) for note in notes)


@pytest.mark.parametrize("content", ["#a\nb\n", "a\n# more\nb\n"])
def test_lists_that_can_be_read_in_two_ways_are_refused(tmp_path, content):
    nodes = tmp_path / "nodes.txt"
    nodes.write_text(content)
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n")
    with pytest.raises(GraphError, match=r"nodes.txt: .*pass comment='#' .* or comment=''"):
        Graph.read(edges, nodes=nodes)
