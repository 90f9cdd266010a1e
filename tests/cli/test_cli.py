"""The command line on files as people have them, and on files that are wrong."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli import demo, doctor, inspect
from dhilgt.cli.app import app
from dhilgt.store.artifact import ArtifactWriter

PATH_EDGES = [("ann", "bob"), ("bob", "cid"), ("cid", "dan")]


def run(*args, stdin=None):
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, prog_name="dhilgt")


def ok(*args, stdin=None):
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def fails(*args, stdin=None):
    """The one message of a command that ends with exit code 1."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("dhilgt: ")
    return last


def shell_command(*args):
    return [sys.executable, "-c", "from dhilgt.cli.app import main; main()", *map(str, args)]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def path_labels(tmp_path):
    graph = dhilgt.Graph.from_edges(*zip(*PATH_EDGES, strict=True))
    dhilgt.HubLabels.build(graph, progress=False).save(tmp_path / "path.labels")
    return tmp_path / "path.labels"


@pytest.fixture
def number_labels(tmp_path):
    graph = dhilgt.Graph.from_edges([7, 8, -3], [8, 9, 40], nodes=[7, 8, 9, -3, 40, 55])
    dhilgt.HubLabels.build(graph, progress=False).save(tmp_path / "number.labels")
    return tmp_path / "number.labels"


# ---- label -------------------------------------------------------------------------------------

TEXTS = {
    "plain": (b"ann,bob\nbob,cid\ncid,dan\n", []),
    "header": (b"source,target\nann,bob\nbob,cid\ncid,dan\n", []),
    "byte order mark, CRLF": (b"\xef\xbb\xbfann,bob\r\nbob,cid\r\ncid,dan\r\n", []),
    "gzip": (gzip.compress(b"ann\tbob\nbob\tcid\ncid\tdan\n"), []),
    "semicolons": (b"ann;bob\nbob;cid\n\n# remark\ncid;dan", ["--comment", "#"]),
    "bars": (b"ann|bob\nbob|cid\n\ncid|dan", []),
    "columns one by one": (
        b"when,who,whom\n1,ann,bob\n2,bob,cid\n3,cid,dan\n",
        ["--source-column", "who", "--target-column", "whom"],
    ),
    "blanks": (b"% remark\nann  bob\nbob cid\ncid   dan\n", ["--separator", " "]),
    "tabs": (b"ann\tbob\nbob\tcid\ncid\tdan\n", ["--separator", "tab"]),
    "own header": (b"left,right\nann,bob\nbob,cid\ncid,dan\n", ["--header"]),
    "no header": (b"ann,bob\nbob,cid\ncid,dan\n", ["--no-header"]),
    "weights": (b"ann,bob,2\nbob,cid,1\ncid,dan,5\n", ["--ignore-weights"]),
    "columns": (b"w,a,b\n1,ann,bob\n1,bob,cid\n1,cid,dan\n", ["--columns", "a,b"]),
    "positions": (b"1,ann,bob\n1,bob,cid\n1,cid,dan\n", ["--columns", "1,2"]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_label_reads_files_as_people_have_them(tmp_path, name):
    data, options = TEXTS[name]
    edges = tmp_path / "edges"
    edges.write_bytes(data)
    ok("label", edges, "-o", tmp_path / "out", *options)
    assert ok("query", tmp_path / "out", "ann", "dan").stdout == "3\n"


def test_label_reports_what_it_did(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n2,1\n2,3\n2,3\n4,4\n")
    result = ok("label", edges, "-o", tmp_path / "out")
    assert "1 self-loop removed; 1 duplicate edge merged; 1 reverse edge added" in result.stderr
    for word in ("nodes", "edges", "entries", "longest distance", "on disk", "seconds"):
        assert word in result.stdout
    again = ok("label", edges, "-o", tmp_path / "out", "--overwrite", "--quiet")
    assert again.stdout == again.stderr == ""


def test_label_json_is_one_object_and_all_that_is_printed(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n2,3\n4,4\n")
    facts = json.loads(ok("label", edges, "-o", tmp_path / "out", "--json").stdout)
    assert (facts["nodes"], facts["edges"], facts["directed"]) == (4, 2, False)
    assert facts["cleaning"]["self_loops"] == 1
    assert set(facts["seconds"]) == {"read", "build", "save"}
    assert facts["fingerprint"] == dhilgt.HubLabels.load(tmp_path / "out").fingerprint


def test_label_keeps_lonely_nodes_direction_and_order(tmp_path):
    edges, nodes, order = tmp_path / "e.csv", tmp_path / "n.txt", tmp_path / "o.txt"
    edges.write_text("a,b\nb,c\n")
    nodes.write_text("a\nb\nc\nlonely\n")
    order.write_text("c\nlonely\na\nb\n")
    ok("label", edges, "-o", tmp_path / "out", "--nodes", nodes, "--directed", "--order", order,
       "--threads", 1, "--algorithm", "pll", "--max-memory", "1GB")  # fmt: skip
    labels = dhilgt.HubLabels.load(tmp_path / "out")
    assert labels.directed
    assert labels.ids.ids_of(labels.order).tolist() == ["c", "lonely", "a", "b"]
    assert ok("query", tmp_path / "out", "a", "c").stdout == "2\n"
    assert ok("query", tmp_path / "out", "c", "a").stdout == "no path\n"
    assert ok("query", tmp_path / "out", "lonely", "lonely").stdout == "0\n"


def test_label_takes_other_formats(tmp_path):
    np.savez(tmp_path / "e.npz", src=[0, 1], dst=[1, 2])
    (tmp_path / "e.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n"
    )
    for name in ("e.npz", "e.mtx"):
        ok("label", tmp_path / name, "-o", tmp_path / f"{name}.labels", "--format", name[2:])
        assert ok("query", tmp_path / f"{name}.labels", 0, 2).stdout == "2\n"


def test_estimate_prints_and_writes_nothing(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n2,3\n")
    assert "entries" in ok("label", edges, "--estimate").stdout
    facts = json.loads(ok("label", edges, "--estimate", "--json").stdout)
    assert facts["entries"] == 5
    assert names_in(tmp_path) == ["edges.csv"]


WRONG = {
    "empty file": (b"", [], "edges is empty"),
    "no edges": (b"source,target\n", [], "no nodes"),
    "one column": (b"1,2\n3\n", [], "line 2"),
    "three columns": (b"1,2,5\n", [], "--ignore-weights"),
    "lone id": (b"1,2\n3,\n", [], "line 2"),
    "outside": (b"0,1\n1,7\n", ["--num-nodes", "3"], "edge 2, target 7 is outside 0 to 2"),
    "negative": (b"0,1\n-1,1\n", ["--num-nodes", "3"], "edge 2, source -1 is outside 0 to 2"),
    "word for index": (b"0,1\nx,1\n", ["--num-nodes", "3"], "line 2: 'x' is not an integer"),
    "not UTF-8": (b"caf\xe9,bar\n", [], "line 1"),
    "UTF-16": ("1,2\n".encode("utf-16"), [], "UTF-16"),
    "web page": (b"<!DOCTYPE html><html>", [], "web page"),
    "cut gzip": (gzip.compress(b"1,2\n" * 5000)[:-20], [], "damaged gzip"),
    "no such column": (b"a,b\n1,2\n", ["--columns", "a,c"], "no column 'c'"),
    "bad separator": (b"1,2\n", ["--separator", "/"], "--separator /"),
    "bad format": (b"1,2\n", ["--format", "xml"], "--format xml"),
    "not parquet": (b"1,2\n", ["--format", "parquet"], "not parquet"),
    "bad size": (b"1,2\n", ["--max-memory", "lots"], "'lots' is not a size"),
    "no order": (b"1,2\n", ["--order", "nowhere.txt"], "nowhere.txt does not exist"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_refused_in_one_message(tmp_path, name):
    data, options, expected = WRONG[name]
    edges = tmp_path / "edges"
    edges.write_bytes(data)
    message = fails("label", edges, "-o", tmp_path / "deep" / "out", *options)
    assert expected in message
    if not {"--max-memory", "--order", "--format", "--separator"} & set(options):
        assert str(edges) in message
    assert names_in(tmp_path) == ["edges"], "something was left behind"


def test_order_must_list_every_node_once(tmp_path):
    edges, order = tmp_path / "e.csv", tmp_path / "o.txt"
    edges.write_text("1,2\n2,3\n")
    order.write_text("1\n2\n")
    for extra in (["-o", tmp_path / "out"], ["--estimate"]):
        assert "3" in fails("label", edges, "--order", order, *extra)
    assert not (tmp_path / "out").exists()


def test_target_is_checked_before_the_work(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n")
    assert "is a file" in fails("label", tmp_path / "missing.csv", "-o", edges)
    ok("label", edges, "-o", tmp_path / "out")
    assert "--overwrite" in fails("label", edges, "-o", tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    message = fails("label", edges, "-o", tmp_path / "mine", "--overwrite")
    assert "thesis.tex" in message
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        assert "locked" in fails("label", edges, "-o", tmp_path / "locked" / "out")


def test_memory_limit_is_kept(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{i},{i + 1}\n" for i in range(20_000)))
    for extra in ([], ["--no-preflight"]):
        message = fails("label", edges, "-o", tmp_path / "out", "--max-memory", "2MB", *extra)
        assert "2 MB" in message
        assert "--max-memory" in message
    assert names_in(tmp_path) == ["edges.csv"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(tmp_path, number):
    # A path searched in the order of its ids has quadratic labels: it would run for minutes.
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{i},{i + 1}\n" for i in range(60_000)))
    process = subprocess.Popen(
        shell_command("label", edges, "-o", tmp_path / "deep" / "out", "--no-preflight",
                      "--order", "degree-id", "--max-memory", "3GB"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "read " in process.stderr.readline()  # the build comes next
    time.sleep(0.2)
    process.send_signal(number)
    started = time.monotonic()
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert time.monotonic() - started < 5
    assert errors.strip() == "dhilgt: interrupted; nothing was left half written"
    assert names_in(tmp_path) == ["edges.csv"]


# ---- query -------------------------------------------------------------------------------------


def test_one_pair(path_labels, number_labels):
    assert ok("query", path_labels, "ann", "dan").stdout == "3\n"
    assert ok("query", path_labels, "ann", "dan", "--witness").stdout == "3 through cid\n"
    assert ok("query", number_labels, 7, 9).stdout == "2\n"
    assert ok("query", number_labels, 7, 55).stdout == "no path\n"
    assert ok("query", number_labels, "--", -3, 40).stdout == "1\n"
    facts = json.loads(ok("query", number_labels, 7, 9, "--json", "--witness").stdout)
    assert facts == {"source": 7, "target": 9, "distance": 2, "hub": 8}
    facts = json.loads(ok("query", number_labels, 7, 55, "--json").stdout)
    assert facts["distance"] == dhilgt.UNREACHABLE


def test_unknown_ids_are_named(path_labels, number_labels):
    assert "'dav'" in fails("query", path_labels, "ann", "dav")
    assert "dan" in fails("query", path_labels, "ann", "dav")
    assert "10" in fails("query", number_labels, 7, 10)
    assert "integers" in fails("query", number_labels, 7, "bob")
    assert "64-bit integers" in fails("query", number_labels, 7, 2**70)


@pytest.mark.parametrize(
    "data",
    [
        b"ann,dan\nbob,bob\n",
        b"\xef\xbb\xbfsource,target\r\nann,dan\r\nbob,bob\r\n",
        b"ann dan\nbob bob",
        b"# asked\nann;dan\n\nbob;bob\n",
        b"ann\tdan\t7\nbob\tbob\t8\n",
        gzip.compress(b"ann,dan\nbob,bob\n", mtime=0),
    ],
)
def test_many_pairs(tmp_path, path_labels, data):
    expected = "source,target,distance\nann,dan,3\nbob,bob,0\n"
    (tmp_path / "pairs").write_bytes(data)
    assert ok("query", path_labels, "--pairs", tmp_path / "pairs").stdout == expected
    assert ok("query", path_labels, "--pairs", "-", stdin=data).stdout == expected


def test_pairs_that_look_like_numbers_are_strings_where_ids_are(tmp_path):
    graph = dhilgt.Graph.from_edges(["007", "8"], ["8", "x"])
    dhilgt.HubLabels.build(graph, progress=False).save(tmp_path / "out")
    assert "007,8,1\n" in ok("query", tmp_path / "out", "--pairs", "-", stdin="007,8\n").stdout


def test_witnesses_file_and_json(tmp_path, number_labels):
    pairs, out = tmp_path / "pairs.txt", tmp_path / "out.csv"
    pairs.write_text("7 9\n7 55\n")
    ok("query", number_labels, "--pairs", pairs, "--witness", "-o", out)
    assert out.read_text() == "source,target,distance,hub\n7,9,2,8\n7,55,-1,\n"
    facts = json.loads(ok("query", number_labels, "--pairs", pairs, "--json").stdout)
    assert facts["pairs"][1] == {"source": 7, "target": 55, "distance": -1}
    # What one query prints, another reads.
    again = ok("query", number_labels, "--pairs", "-", stdin=out.read_text()).stdout
    assert again == "source,target,distance\n7,9,2\n7,55,-1\n"


def test_names_with_separators_are_quoted(tmp_path):
    graph = dhilgt.Graph.from_edges(["a,b"], ['say "hi"'])
    dhilgt.HubLabels.build(graph, progress=False).save(tmp_path / "out")
    stdin = '"a,b","say ""hi"""\n'
    rows = list(
        csv.reader(io.StringIO(ok("query", tmp_path / "out", "--pairs", "-", stdin=stdin).stdout))
    )
    assert rows[1] == ["a,b", 'say "hi"', "1"]


@pytest.mark.parametrize("nothing", ["", "source,target\n", "\n# none\n"])
def test_no_pairs_give_no_rows(tmp_path, path_labels, nothing):
    (tmp_path / "pairs").write_text(nothing)
    for pairs in (tmp_path / "pairs", "-"):
        result = ok("query", path_labels, "--pairs", pairs, "--witness", stdin=nothing)
        assert result.stdout == "source,target,distance,hub\n"


def test_bad_pairs_name_the_place(tmp_path, path_labels, number_labels):
    out = tmp_path / "out.csv"
    out.write_text("older")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("7,8\n8,100\n")
    message = fails("query", number_labels, "--pairs", pairs, "-o", out)
    assert f"{pairs}, pair 2: the target 100" in message
    assert out.read_text() == "older"
    assert "line 2: 'bob' is not an integer" in fails(
        "query", number_labels, "--pairs", "-", stdin="7,8\nbob,8\n"
    )
    assert "standard input, line 2" in fails(
        "query", path_labels, "--pairs", "-", stdin="ann,bob\nann\n"
    )
    assert "does not exist" in fails("query", path_labels, "--pairs", tmp_path / "nowhere")
    assert "is a folder" in fails("query", path_labels, "--pairs", "-", "-o", tmp_path, stdin="")
    assert "cannot be written" in fails(
        "query", path_labels, "--pairs", "-", "-o", tmp_path / "no" / "x.csv", stdin=""
    )
    assert not [name for name in names_in(tmp_path) if name.endswith(".tmp")]


def test_query_refuses_what_is_not_labels(tmp_path, path_labels):
    assert "no artifact" in fails("query", tmp_path / "nowhere", "a", "b")
    manifest = path_labels / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:50])
    assert str(path_labels) in fails("query", path_labels, "ann", "bob")
    with ArtifactWriter(tmp_path / "newer", kind="labels", format_version=99) as writer:
        writer.write_array("order", np.arange(3))
    assert "format 99" in fails("query", tmp_path / "newer", "ann", "bob")
    with ArtifactWriter(tmp_path / "other", kind="squares", format_version=1) as writer:
        writer.write_array("values", np.arange(3))
    assert "holds 'squares', not 'labels'" in fails("query", tmp_path / "other", "ann", "bob")
    manifest.write_bytes(whole)
    next(path_labels.glob("*records.npy")).unlink()
    assert "is missing" in fails("query", path_labels, "ann", "bob")


# ---- inspect -----------------------------------------------------------------------------------


def test_inspect_labels(tmp_path):
    graph = nx.disjoint_union(nx.barabasi_albert_graph(300, 2, seed=1), nx.empty_graph(3))
    labels = dhilgt.HubLabels.build(dhilgt.Graph.from_networkx(graph), progress=False)
    labels.save(tmp_path / "out")
    text = ok("inspect", tmp_path / "out", "--verify").stdout
    for word in ("directed", "#####", "all bytes verified", labels.fingerprint):
        assert word in text
    facts = json.loads(ok("inspect", tmp_path / "out", "--json").stdout)
    assert facts["kind"] == "labels"
    assert facts["nodes"] == 303
    assert facts["components"] == 4
    assert facts["entries_per_node"]["max"] == max(len(labels.hubs(v)[0]) for v in range(303))
    assert sum(facts["distance_histogram"]) == facts["entries"] == labels.num_entries
    assert facts["verified"] is True  # as it is small


def test_inspect_counts_both_labels_of_directed_graphs(tmp_path):
    graph = dhilgt.generate(200, 4, seed=3, directed=True)
    labels = dhilgt.HubLabels.build(graph, progress=False)
    labels.save(tmp_path / "out")
    facts = json.loads(ok("inspect", tmp_path / "out", "--json").stdout)
    assert facts["directed"] is True
    assert "components" not in facts
    assert facts["entries_per_node"]["mean"] * 200 == pytest.approx(labels.num_entries)


def test_inspect_looks_at_some_nodes_of_large_graphs(tmp_path, monkeypatch, path_labels):
    monkeypatch.setattr(inspect, "_MOST_NODES", 2)
    facts = json.loads(ok("inspect", path_labels, "--json").stdout)
    assert facts["entries_per_node"]["exact"] is False
    assert "components" not in facts
    assert "of 2 nodes" in ok("inspect", path_labels).stdout


def test_inspect_lists_kinds_it_does_not_know(tmp_path):
    with ArtifactWriter(
        tmp_path / "x", kind="squares", format_version=3, params={"a": 5}
    ) as writer:
        writer.write_array("values", np.arange(4))
    text = ok("inspect", tmp_path / "x", "--verify").stdout
    assert "squares, format 3" in text
    assert "values: " in text
    facts = json.loads(ok("inspect", tmp_path / "x", "--json").stdout)
    assert facts["params"] == {"a": 5}
    assert facts["arrays"]["values"]["shape"] == [4]


@pytest.mark.parametrize("options", [[], ["--verify"]])
def test_inspect_finds_a_flipped_bit(path_labels, options):
    file = next(path_labels.glob("*records.npy"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    message = fails("inspect", path_labels, *options)
    assert file.name in message
    assert "SHA-256" in message


# ---- demo, doctor, generate --------------------------------------------------------------------


@pytest.mark.full
def test_demo_runs_twice(tmp_path):
    for _ in range(2):
        text = ok("demo", "-o", tmp_path / "show", "--nodes", 500).stdout
        assert text.count("equal a breadth-first search") == 5
        assert "checksums right" in text
        assert "distances right" in text
        for name in ("one answer for all", "MLP, features alone", "DHIL-GT"):
            assert re.search(rf"^{name} +\d+\.\d% right$", text, re.MULTILINE)
        assert "... and 497 more" in text
    assert names_in(tmp_path / "show") == ["labels", "run", "tokens"]
    for line in text.splitlines()[-2:]:
        assert Path(line.split(": ")[1].strip()).stat().st_size > 1000


def test_doctor():
    assert "passed" in ok("doctor").stdout
    facts = json.loads(ok("doctor", "--json").stdout)
    assert facts["dhilgt"] == dhilgt.__version__
    assert facts["self_test"]["problem"] is None
    assert facts["packages"]["numpy"] == np.__version__


def test_doctor_notices_wrong_distances(monkeypatch):
    monkeypatch.setattr(
        doctor.demo, "distances_from", lambda graph, v: np.zeros(graph.num_nodes, np.int32)
    )
    result = run("doctor")
    assert result.exit_code == 1
    assert "FAILED: auto is wrong on an undirected graph" in result.stdout


def test_plain_search_agrees_with_networkx():
    graph = nx.gnp_random_graph(60, 0.04, seed=2, directed=True)
    for source in range(60):
        found = nx.single_source_shortest_path_length(graph, source)
        expected = [found.get(v, -1) for v in range(60)]
        assert demo.distances_from(dhilgt.Graph.from_networkx(graph), source).tolist() == expected


@pytest.mark.parametrize("directed", [False, True])
def test_generated_files_give_the_graph_back(tmp_path, directed):
    folder = tmp_path / "trial"
    kind = ["--directed"] if directed else []
    facts = json.loads(
        ok("generate", "-o", folder, "--nodes", 400, "--degree", 4, "--classes", 3,
           "--homophily", 0.5, "--seed", 7, "--features", 5, "--json", *kind).stdout
    )  # fmt: skip
    assert names_in(folder) == ["edges.csv", "features.npy", "labels.csv"]
    expected = dhilgt.generate(
        400, 4, num_classes=3, homophily=0.5, seed=7, num_features=5, directed=directed
    )
    graph = dhilgt.Graph.read(
        folder / "edges.csv",
        num_nodes=400,
        directed=directed,
        features=folder / "features.npy",
        labels=folder / "labels.csv",
    )
    assert graph.fingerprint == expected.fingerprint
    assert np.array_equal(graph.labels, expected.labels)
    assert np.array_equal(graph.features, expected.features)
    assert facts["nodes"] == 400
    assert "--overwrite" in fails("generate", "-o", folder)
    ok("generate", "-o", folder, "--nodes", 500, "--overwrite")
    ok("label", folder / "edges.csv", "--nodes", folder / "labels.csv", "-o", folder / "out")


def test_generate_refuses_what_cannot_be(tmp_path):
    assert "--homophily 3.0; pass 0 to 1" in fails(
        "generate", "-o", tmp_path / "deep" / "x", "--homophily", 3
    )
    assert "lower --degree" in fails(
        "generate", "-o", tmp_path / "x", "--nodes", 20, "--degree", 19
    )
    (tmp_path / "file").touch()
    assert "not a folder" in fails("generate", "-o", tmp_path / "file")
    assert names_in(tmp_path) == ["file"]


# ---- the shell ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["label"],
        ["label", "edges.csv"],
        ["label", "edges.csv", "-o", "x", "--algorithm", "magic"],
        ["label", "edges.csv", "-o", "x", "--threads", "0"],
        ["label", "edges.csv", "-o", "x", "--columns", "a"],
        ["label", "edges.csv", "-o", "x", "--colums", "a"],
        ["query", "x"],
        ["query", "x", "a"],
        ["query", "x", "a", "b", "--pairs", "-"],
        ["query", "x", "a", "b", "-o", "out.csv"],
        ["generate"],
        ["generate", "-o", "x", "--nodes", "0"],
    ],
)
def test_wrong_usage_exits_with_2(tmp_path, monkeypatch, args):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("1,2\n")
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert "Usage: dhilgt" in result.stderr
    assert names_in(tmp_path) == ["edges.csv"]


@pytest.mark.parametrize("command", ["label", "query", "inspect", "demo", "doctor", "generate"])
def test_help_has_an_example(command):
    assert f"dhilgt {command}" in ok(command, "--help").stdout.partition("Example:")[2]


def test_version():
    assert ok("--version").stdout == f"dhilgt {dhilgt.__version__}\n"


def test_unexpected_errors_are_one_line(monkeypatch, tmp_path):
    def broken(*_args, **_kwargs):
        raise RuntimeError("oh dear")

    monkeypatch.setattr(doctor, "_self_test", broken)
    assert "unexpected RuntimeError: oh dear; add --debug" in fails("doctor")


def test_debug_works_at_the_end_of_the_line(tmp_path):
    command = shell_command("inspect", tmp_path / "nowhere", "--debug")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.strip().splitlines()[-1].startswith("dhilgt: ")


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    graph = dhilgt.Graph.from_edges([0], [1])
    dhilgt.HubLabels.build(graph, progress=False).save(tmp_path / "out")
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("0 1\n" * 200_000)
    process = subprocess.Popen(
        shell_command("query", tmp_path / "out", "--pairs", pairs),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == b"source,target,distance\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=20) == 0


def test_pipes_get_no_bars(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("1,2\n")
    command = shell_command("label", edges, "-o", tmp_path / "out")
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == f"read {edges}: undirected, 2 nodes, 1 edges; 1 reverse edge added.\n"
    assert "\x1b" not in result.stdout


def test_help_does_not_wait_for_libraries_of_training():
    code = (
        "import sys, dhilgt.cli.app;"
        "sys.exit(bool({'torch', 'scipy', 'optuna', 'matplotlib'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
