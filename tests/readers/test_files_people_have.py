"""Sixty files as people have them: each is read right, or refused with the reason.

The same small graph, features and classes stand behind all of them.
"""

import gzip
import io

import numpy as np
import pytest

from dhilgt import Graph
from dhilgt.errors import GraphError

PAIRS = [("ann", "bob"), ("bob", "cid"), ("cid", "dan"), ("dan", "ann"), ("ann", "cid")]
AGES = {"ann": 31.0, "bob": 25.5, "cid": 47.0, "dan": 19.0}
PLANS = {"ann": "free", "bob": "paid", "cid": "paid", "dan": "free"}
NUMBERS = {"ann": 10, "bob": 11, "cid": 12, "dan": 40}  # the same nodes with integer ids


def lines(pairs, separator=",", head="", end="\n"):
    return (head + "".join(f"{a}{separator}{b}{end}" for a, b in pairs)).encode()


def numbered(pairs=PAIRS):
    return [(NUMBERS[a], NUMBERS[b]) for a, b in pairs]


def parquet(columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def npz(**arrays):
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def ends(side, pairs=PAIRS):
    return [pair[side] for pair in pairs]


WORDS, INTEGERS = "words", "integers"
PREFIXED = [(f"#{a}", f"#{b}") for a, b in PAIRS]

# name of the case -> (content, how it is read, the ids behind it or a part of the refusal)
EDGE_FILES = {
    "comma": (lines(PAIRS), {}, WORDS),
    "tab": (lines(PAIRS, "\t"), {}, WORDS),
    "semicolon": (lines(PAIRS, ";"), {}, WORDS),
    "pipe sign": (lines(PAIRS, "|"), {}, WORDS),
    "one blank": (lines(PAIRS, " "), {}, WORDS),
    "aligned with blanks": (lines(PAIRS, "     "), {}, WORDS),
    "comma and blank": (lines(PAIRS, ", "), {}, WORDS),
    "byte order mark": (b"\xef\xbb\xbf" + lines(PAIRS), {}, WORDS),
    "lines of Windows": (lines(PAIRS, end="\r\n"), {}, WORDS),
    "no newline at the end": (lines(PAIRS)[:-1], {}, WORDS),
    "blank lines between": (lines(PAIRS, end="\n\n"), {}, WORDS),
    "quotes around all": (lines([(f'"{a}"', f'"{b}"') for a, b in PAIRS]), {}, WORDS),
    "gzip": (gzip.compress(lines(PAIRS)), {}, WORDS),
    "integers": (lines(numbered()), {}, INTEGERS),
    "integers, known header": (lines(numbered(), head="source,target\n"), {}, INTEGERS),
    "integers, odd header": (lines(numbered(), head="buyer,seller\n"), {}, INTEGERS),
    "words, known header": (lines(PAIRS, head="source,target\n"), {}, WORDS),
    "words, buyer and seller": (lines(PAIRS, head="buyer,seller\n"), {}, WORDS),
    "words, user and friend": (lines(PAIRS, head="user_id,friend_id\n"), {}, WORDS),
    "words, paper and cites": (lines(PAIRS, head="paper,cites\n"), {}, WORDS),
    "words, header asked for": (lines(PAIRS, head="zoe,yan\n"), {"header": True}, WORDS),
    "words, header in quotes": (lines(PAIRS, head='"from","to"\n'), {}, WORDS),
    "SNAP": (
        lines(numbered(), "\t", "# Directed graph: web.txt\n# FromNodeId\tToNodeId\n"),
        {},
        INTEGERS,
    ),
    "KONECT": (lines(numbered(), " ", "% sym unweighted\n% 5 4 4\n"), {}, INTEGERS),
    "ids begin with #": (lines(PREFIXED), {"header": False}, "#words"),
    "comment asked for": (
        lines(PAIRS[:2]) + b"# the second half\n" + lines(PAIRS[2:]),
        {"comment": "#"},
        WORDS,
    ),
    "comment in the middle": (lines(numbered()[:2]) + b"# half\n" + lines(numbered()[2:]), {}, "#"),
    "weights of one": (lines([(f"{a},{b}", 1) for a, b in numbered()]), {}, "weight"),
    "weights to be ignored": (
        lines([(f"{a},{b}", 0.5) for a, b in numbered()]),
        {"weights": "ignore"},
        INTEGERS,
    ),
    "columns by name": (
        b"day,who,whom\n" + lines([(f"{day},{a}", b) for day, (a, b) in enumerate(PAIRS)]),
        {"columns": ("who", "whom")},
        WORDS,
    ),
    "columns by position": (
        lines([(f"{day},{a}", b) for day, (a, b) in enumerate(PAIRS)]),
        {"columns": (1, 2), "header": False},
        WORDS,
    ),
    "integers written as floats": (
        lines([(f"{a}.0", f"{b}.0") for a, b in numbered()]), {}, INTEGERS
    ),
    "an end is missing": (b"10,11\n12,\n", {}, "line 2"),
    "one column": (b"ann\nbob\n", {}, "column"),
    "a quote is not closed": (b'"ann,bob\ncid,dan\n', {}, "quote"),
    "UTF-16": ("ann,bob\n".encode("utf-16"), {}, "UTF-16"),
    "Latin-1": ("j\xf6rg,ann\n".encode("latin-1"), {}, "UTF-8"),
    "old Mac lines": (b"1,2\r2,3\r", {}, "CR"),
    "empty": (b"", {}, "empty"),
    "only comments": (b"# nothing here\n", {}, "no edges"),
    "web page": (b"<!DOCTYPE html><html>Not found</html>", {}, "web page"),
    "Excel": (b"PK\x03\x04" + b"\0" * 40, {}, "NPZ"),
    "Parquet of words": (parquet({"a": ends(0), "b": ends(1)}), {}, WORDS),
    "Parquet of integers": (
        parquet({"src": ends(0, numbered()), "dst": ends(1, numbered())}),
        {},
        INTEGERS,
    ),
    "NPZ": (npz(src=ends(0, numbered()), dst=ends(1, numbered())), {}, INTEGERS),
    "MatrixMarket": (
        b"%%MatrixMarket matrix coordinate pattern general\n% made by hand\n4 4 2\n1 2\n2 3\n",
        {},
        "matrix",
    ),
}  # fmt: skip


def ids_behind(kind):
    names = {WORDS: list(NUMBERS), "#words": [f"#{name}" for name in NUMBERS]}
    return names.get(kind, list(NUMBERS.values()))


def edges_of(graph):
    return {frozenset(graph.ids_of(pair).tolist()) for pair in graph.to_edge_index().T}


@pytest.mark.filterwarnings("ignore::dhilgt.errors.GraphWarning")
@pytest.mark.parametrize("name", EDGE_FILES)
def test_a_file_of_edges_is_read_right_or_refused(name, tmp_path):
    content, options, expected = EDGE_FILES[name]
    file = tmp_path / "edges"
    file.write_bytes(content)
    if expected == "matrix":
        assert edges_of(Graph.read(file)) == {frozenset({0, 1}), frozenset({1, 2})}
    elif expected in (WORDS, INTEGERS, "#words"):
        ids = dict(zip(NUMBERS, ids_behind(expected), strict=True))
        graph = Graph.read(file, **options)
        assert sorted(graph.nodes.tolist()) == sorted(ids.values())
        assert edges_of(graph) == {frozenset({ids[a], ids[b]}) for a, b in PAIRS}
    else:
        with pytest.raises(GraphError, match=expected) as refusal:
            Graph.read(file, **options)
        assert str(file) in str(refusal.value)


def rows(*columns, separator=",", head=None, order=tuple(AGES)):
    names = [] if head is None else [separator.join(head)]
    cells = [separator.join(str(column[key]) for column in columns) for key in order]
    return ("\n".join([*names, *cells]) + "\n").encode()


NAME = {key: key for key in AGES}
CODES = {key: place * 1.5 for place, key in enumerate(AGES)}
QUOTED = {"ann": '"x, y"', "bob": '"say ""hi"""', "cid": "plain", "dan": '"x, y"'}
GAPS = AGES | {"dan": ""}
COMMA = {key: str(value).replace(".", ",") for key, value in AGES.items()}

# name of the case -> (content, how it is read, the columns of numbers behind it or the refusal)
FEATURE_FILES = {
    "header id": (rows(NAME, AGES, CODES, head=("id", "age", "code")), {}, [AGES, CODES]),
    "header sku": (rows(NAME, AGES, CODES, head=("sku", "age", "code")), {}, [AGES, CODES]),
    "header of pandas": (rows(NAME, AGES, head=("", "age")), {}, [AGES]),
    "ids in the last column": (rows(AGES, NAME, head=("age", "email")), {}, [AGES]),
    "ids asked for": (
        rows(CODES, NAME, AGES, head=("row", "who", "age")),
        {"id_column": "who"},
        [CODES, AGES],
    ),
    "no header": (rows(NAME, AGES, CODES), {}, [AGES, CODES]),
    "another order of rows": (
        rows(NAME, AGES, head=("id", "age"), order=("dan", "cid", "bob", "ann")),
        {},
        [AGES],
    ),
    "semicolons, decimal commas": (
        rows(NAME, COMMA, head=("id", "age"), separator=";"),
        {},
        [AGES],
    ),
    "a gap": (rows(NAME, GAPS, head=("id", "age")), {}, [AGES | {"dan": (31 + 25.5 + 47) / 3}]),
    "words as categories": (
        rows(NAME, AGES, PLANS, head=("id", "age", "plan")),
        {},
        [AGES, *({key: PLANS[key] == plan for key in AGES} for plan in ("free", "paid"))],
    ),
    "quoted separators": (
        rows(NAME, AGES, QUOTED, head=("id", "age", "note")),
        {"feature_columns": ["age"]},
        [AGES],
    ),
    "truth values": (
        rows(NAME, {key: value > 26 for key, value in AGES.items()}, head=("id", "old")),
        {},
        [{key: value > 26 for key, value in AGES.items()}],
    ),
    "some columns": (
        rows(NAME, AGES, CODES, head=("id", "age", "code")),
        {"feature_columns": ["!code"]},
        [AGES],
    ),
    "a column that is not there": (
        rows(NAME, AGES, head=("id", "age")),
        {"feature_columns": ["agee"]},
        "age",
    ),
    "an id twice": (
        rows(NAME, AGES, head=("id", "age"), order=("ann", "bob", "cid", "dan", "ann")),
        {},
        "ann",
    ),
    "a node without a row": (rows(NAME, AGES, head=("id", "age"), order=("ann", "bob")), {}, "cid"),
    "infinite": (rows(NAME, AGES | {"bob": "inf"}, head=("id", "age")), {}, "finite"),
    "rows of two lengths": (b"id,age\nann,1\nbob,2,3\ncid,1\ndan,1\n", {}, "line 3"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::dhilgt.errors.GraphWarning")
@pytest.mark.parametrize("name", FEATURE_FILES)
def test_a_file_of_features_is_read_right_or_refused(name, tmp_path):
    content, options, expected = FEATURE_FILES[name]
    edges, file = tmp_path / "edges.csv", tmp_path / "features.csv"
    edges.write_bytes(lines(PAIRS))
    file.write_bytes(content)
    if isinstance(expected, str):
        with pytest.raises(GraphError, match=expected) as refusal:
            Graph.read(edges, features=file, **options)
        assert str(file) in str(refusal.value)
        return
    graph = Graph.read(edges, features=file, **options)
    columns = [[float(column[node]) for node in graph.nodes] for column in expected]
    np.testing.assert_allclose(graph.features, np.array(columns, np.float32).T)


def test_there_are_sixty():
    assert len(EDGE_FILES) + len(FEATURE_FILES) >= 60
