"""Pipes, columns, comments and headers on the command line."""

import os
import threading

import pytest

import dhilgt
from tests.cli.cases import SMALL, Files, fails, ok, run

PATH = "ann,bob\nbob,cid\ncid,dan\n"


@pytest.fixture
def pipe(tmp_path):
    """Make paths like those of process substitution, /dev/fd/63, that hand out a text once."""
    ends = []

    def make(text):
        reader, writer = os.pipe()

        def write():
            with os.fdopen(writer, "wb") as stream:
                stream.write(text if isinstance(text, bytes) else text.encode())

        thread = threading.Thread(target=write)
        thread.start()
        ends.append((thread, reader))
        return f"/dev/fd/{reader}"

    yield make
    for thread, reader in ends:
        os.close(reader)
        thread.join()


@pytest.fixture
def labels(tmp_path):
    edges = [line.split(",") for line in PATH.split()]
    graph = dhilgt.Graph.from_edges(*zip(*edges, strict=True))
    dhilgt.HubLabels.build(graph, progress=False).save(tmp_path / "path.labels")
    return tmp_path / "path.labels"


def test_pairs_from_a_pipe_are_answered(labels, pipe):
    answers = ok("query", labels, "--pairs", pipe("ann,dan\nbob,cid\n")).stdout
    assert answers == "source,target,distance\nann,dan,3\nbob,cid,1\n"
    from_input = ok("query", labels, "--pairs", "-", stdin=b"ann dan\n").stdout
    assert from_input == "source,target,distance\nann,dan,3\n"


def test_no_pairs_are_said(labels, pipe):
    result = ok("query", labels, "--pairs", pipe(""))
    assert result.stdout == "source,target,distance\n"
    assert "holds no pairs" in result.stderr


def test_a_header_of_pairs_has_no_nodes(labels):
    result = ok("query", labels, "--pairs", "-", stdin="user_id,friend_id\nann,cid\n")
    assert result.stdout.splitlines() == ["source,target,distance", "ann,cid,2"]
    assert "(user_id, friend_id) is read as a header" in result.stderr
    message = fails_with_input("rot,gruen\nann,cid\n", "query", labels, "--pairs", "-")
    assert "pair 1" in message


def fails_with_input(stdin, *args):
    result = run(*args, stdin=stdin)
    assert result.exit_code == 1, result.output
    return result.stderr.strip().splitlines()[-1]


def test_edges_and_nodes_from_pipes(tmp_path, pipe):
    out = tmp_path / "l"
    result = ok("label", pipe(PATH), "--nodes", pipe("ann\nbob\ncid\ndan\nzoe\n"), "-o", out)
    assert "5 nodes, 3 edges" in result.stderr
    assert ok("query", out, "ann", "dan").stdout == "3\n"
    result = ok("label", "-", "-o", tmp_path / "m", stdin=PATH)
    assert "read standard input: undirected, 4 nodes" in result.stderr


def test_one_input_at_most_is_standard_input(tmp_path):
    result = run("label", "-", "--nodes", "-", "-o", tmp_path / "l", stdin=PATH)
    assert result.exit_code == 2
    assert "EDGES and --nodes: standard input can be read once" in result.stderr
    assert "standard input is empty" in fails("label", "-", "-o", tmp_path / "l")


def test_a_run_from_pipes(tmp_path, pipe):
    files = Files(tmp_path)
    given = {name: pipe(getattr(files, name).read_bytes()) for name in ("features", "labels")}
    arguments = [word for name, path in given.items() for word in (f"--{name}", path)]
    stdin = files.edges.read_bytes()
    out = tmp_path / "run"
    small = (*SMALL, "--no-report", "--no-cache")
    result = ok("train", "--edges", "-", *arguments, "-o", out, *small, stdin=stdin)
    assert "read standard input: undirected, 90 nodes" in result.stderr
    assert "--edges and --features and --labels came from a pipe" in result.stderr
    assert "/dev/fd" not in (out / "config.yaml").read_text()
    message = fails("train", "--resume", "-o", out)
    assert "the edges of this run came from a pipe, which is gone; pass --edges FILE" in message
    again = ["--edges", files.edges, "--features", files.features, "--labels", files.labels]
    ok("train", "--resume", "-o", out, *again)
    predicted = ok("predict", out, "--nodes", pipe("n03\nn01\n")).stdout.splitlines()
    assert [line.split(",")[0] for line in predicted] == ["node", "n03", "n01"]
    assert ok("evaluate", out, "--labels", pipe(files.labels.read_bytes())).exit_code == 0


def test_notes_of_the_reader_are_printed(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("# sales\nwhen,buyer,seller\n1,ann,bob\n2,bob,cid\n")
    named = ["--source-column", "buyer", "--target-column", "seller"]
    result = ok("label", edges, "-o", tmp_path / "l", *named)
    assert "skipped 1 line before the first edge" in result.stderr
    assert "edges go from column buyer to column seller; ignored: when" in result.stderr
    assert "notes" in ok("label", edges, *named, "-o", tmp_path / "m", "--json").stdout
    assert "pass --ignore-weights or --columns buyer,seller" in fails("label", edges, "--estimate")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--source-column", "a"], "--target-column: goes with --source-column; give both"),
        (["--target-column", "a"], "--source-column: goes with --target-column; give both"),
        (["--source-column", "a", "--target-column", "b", "--columns", "a,b"], "for --columns"),
    ],
)
def test_columns_that_do_not_go_together(tmp_path, options, words):
    edges = tmp_path / "edges.csv"
    edges.write_text("a,b\n1,2\n")
    result = run("label", edges, "--estimate", *options)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_messages_name_the_options(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n# more\n2,3\n")
    message = fails("label", edges, "--estimate")
    assert "pass --comment '#' to skip such lines, or --comment ''" in message
    assert "2 edges" in ok("label", edges, "--estimate", "--comment", "#").stderr
    edges.write_text("rot,gruen\nann,bob\nbob,cid\n")
    assert "pass --header or --no-header" in fails("label", edges, "--estimate")
