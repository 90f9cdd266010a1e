"""A first line of words above edges between words: a header, an edge, or refused."""

import itertools
import random
import warnings

import numpy as np
import pytest

from dhilgt import Graph, GraphError
from dhilgt.readers.end_names import end_columns, likeness
from dhilgt.readers.headers import Occurrences

pytestmark = pytest.mark.filterwarnings("ignore::dhilgt.GraphWarning")

HEADERS = [
    "source,target", "buyer,seller", "user_id,friend_id", "paper,cites", "Person A,Person B",
    "from,to", "follower,followee", "user,friend", "node_a,node_b", "gene1,gene2",
    "sender,receiver", "protein,interactor", "author,coauthor", "page,link",
    "start_station,end_station", "employee,manager", "userId,movieId", "customer_name,product_name",
    "citing_paper,cited_paper", "company,supplier", "Kaeufer,Verkaeufer", "fromNodeId,toNodeId",
]  # fmt: skip
NAMES = [
    "ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "lea", "mia",
    "ned", "ola", "pam", "quinn", "rob", "sue", "tim", "una", "val", "wes", "xia", "yan", "zoe",
    "amy", "ben", "cal", "dee", "eli", "flo", "gil", "han", "ira", "joy", "ken", "leo", "max",
    "nat", "ole", "pia", "ray", "sam", "ted", "uma",
]  # fmt: skip
IDS = {
    "words": NAMES,
    "names": [name.capitalize() for name in NAMES],
    "full names": [f"{a} {b}".title() for a, b in itertools.pairwise(NAMES)],
    "numbers": [str(number) for number in range(45)],
    "numbered": [f"p{number:03}" for number in range(45)],
    "like columns": [f"node{number}" for number in range(1, 46)],
    "addresses": [f"{name}@example.org" for name in NAMES],
    "capitals": [name.upper() for name in NAMES],
}
DRAW = random.Random(0)
SHAPES = {
    "path": lambda ids: list(itertools.pairwise(ids[:20])),
    "short path": lambda ids: list(itertools.pairwise(ids[:4])),
    "one edge": lambda ids: [(ids[0], ids[1])],
    "pairs": lambda ids: list(zip(ids[:20:2], ids[1:20:2], strict=True)),
    "random": lambda ids: [tuple(DRAW.sample(ids[:15], 2)) for _ in range(25)],
    "two sides": lambda ids: [(DRAW.choice(ids[:5]), DRAW.choice(ids[5:20])) for _ in range(20)],
    "pair first": lambda ids: [(ids[-1], ids[-2]), *itertools.pairwise(ids[:20])],
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "edges.csv"


def nodes_or_refused(file, first_line, rows, **options):
    first = [] if first_line is None else [first_line]
    file.write_text("\n".join([*first, *(",".join(row) for row in rows)]) + "\n")
    try:
        return set(map(str, Graph.read(file, **options).nodes.tolist()))
    except GraphError as error:
        return None if error.mentions("header") else str(error)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("style", IDS)
def test_no_header_becomes_an_edge_and_no_edge_a_header(file, style, shape):
    rows = SHAPES[shape](IDS[style])
    expected = {name for row in rows for name in row}
    for header in (None, *HEADERS):
        assert nodes_or_refused(file, header, rows) in (expected, None), header
        assert nodes_or_refused(file, header, rows, header=header is not None) == expected


@pytest.mark.parametrize("style", IDS)
def test_most_files_are_not_refused(file, style):
    for shape in ("path", "random"):
        rows = SHAPES[shape](IDS[style])
        refused = [h for h in (None, *HEADERS) if nodes_or_refused(file, h, rows) is None]
        # Nothing but a dictionary tells that these German words are no names.
        assert set(refused) <= {"Kaeufer,Verkaeufer"}


def test_the_decision_is_in_the_notes(file):
    file.write_text("buyer,seller\nann,bob\nbob,cid\n")
    assert "the first line (buyer, seller) is read as a header" in Graph.read(file).notes[0]
    file.write_text("ann,bob\nbob,cid\n")
    assert "the first line (ann, bob) is read as an edge" in Graph.read(file).notes[0]
    file.write_text("buyer,seller\n1,2\n2,3\n")
    assert Graph.read(file).notes == ()  # numbers below words leave no doubt


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("paper,cites\nann,bob\n", "occur on no other line"),
        ("rot,gruen\nann,bob\nbob,cid\n", "occur on no other line"),
        ("source,target\nann,target\nann,bob\n", "names of columns, and occur as ids"),
    ],
)
def test_what_is_not_plain_is_refused_with_both_ways_out(file, content, reason):
    file.write_text(content)
    with pytest.raises(GraphError) as refusal:
        Graph.read(file)
    message = str(refusal.value)
    assert str(file) in message
    assert reason in message
    assert "pass header=True or header=False" in message
    count = len({word for line in content.split() for word in line.split(",")})
    assert Graph.read(file, header=False).num_nodes == count


def test_toy_graphs_are_read(file):
    for content in ("a,b\nb,c\n", "u,v\nv,w\n", "x,y\ny,z\n", "A,B\nB,C\n", "n1,n2\nn2,n3\n"):
        file.write_text(content)
        assert Graph.read(file).num_nodes == 3, content
    file.write_text("ann,bob\n")
    assert Graph.read(file).num_nodes == 2


def test_a_header_again_is_not_an_edge(file):
    file.write_text("source,target\n1,2\n2,3\nsource,target\n3,4\n")
    with pytest.raises(GraphError, match="line 4 is the header again; remove that line"):
        Graph.read(file)
    file.write_text("source,target\nann,bob\nbob,cid\nsource,target\ncid,dan\n")
    with pytest.raises(GraphError, match=r"occurs again; if it is a header, remove"):
        Graph.read(file)
    with pytest.raises(GraphError, match="an edge is the header again"):
        Graph.read(file, header=True)
    assert Graph.read(file, header=False).num_nodes == 6


def test_a_number_in_a_further_name_does_not_hide_the_header(file):
    file.write_text("from,to,2019\n1,2,7\n2,3,8\n")
    assert Graph.read(file, weights="ignore").nodes.tolist() == [1, 2, 3]


# ---- columns -----------------------------------------------------------------------------------


def test_further_columns_may_come_first(file):
    file.write_text("when,from,to\n1999,1,2\n2004,2,3\n")
    with pytest.raises(GraphError) as refusal:
        Graph.read(file)
    for part in ("when, from, to", "from and to are the ends", "when may be weights",
                 "weights='ignore'", "columns=('from', 'to')"):  # fmt: skip
        assert part in str(refusal.value)
    for options in ({"weights": "ignore"}, {"columns": ("from", "to")}):
        graph = Graph.read(file, **options)
        assert graph.nodes.tolist() == [1, 2, 3]
        assert graph.notes[0].endswith("edges go from column from to column to; ignored: when")


def test_further_columns_beside_words(file):
    file.write_text("since,buyer,seller\n1999,ann,bob\n2004,bob,cid\n")
    assert Graph.read(file, weights="ignore").nodes.tolist() == ["ann", "bob", "cid"]
    file.write_text("one,two,three\n1,2,3\n")
    with pytest.raises(GraphError, match="which two hold the ends of edges"):
        Graph.read(file)
    file.write_text("from,to,from\n1,2,3\n")
    with pytest.raises(GraphError, match="two columns 'from'; pass their positions"):
        Graph.read(file, columns=("from", "to"))


def test_the_index_of_a_frame_is_no_end_of_edges(file):
    file.write_text(",source,target\n0,7,8\n1,8,9\n")
    with pytest.raises(GraphError, match="source and target are the ends"):
        Graph.read(file)
    assert Graph.read(file, columns=("source", "target")).nodes.tolist() == [7, 8, 9]


ENDS = {
    ("source", "target"): (0, 1), ("to", "from"): (1, 0), ("w", "src", "dst"): (1, 2),
    ("when", "from_user", "to_user"): (1, 2), ("child", "parent", "w"): (0, 1),
    ("numeric_id_1", "numeric_id_2"): (0, 1), ("userId", "movieId", "rating"): (0, 1),
    ("head", "relation", "tail"): (0, 2), ("Node 1", "Node 2", "score"): (0, 1),
    ("red", "green", "blue"): None, ("from", "to", "source", "target"): None, ("id", "x"): None,
}  # fmt: skip


@pytest.mark.parametrize("names", ENDS)
def test_which_columns_are_the_ends(names):
    assert end_columns(names) == ENDS[names]


def test_likeness_is_symmetric_in_its_verdict_about_ids():
    for a, b in itertools.permutations(NAMES[:12], 2):
        assert likeness(a, b) == 0


def test_occurrences_against_counting():
    rng = np.random.default_rng(0)
    for _ in range(50):
        count = int(rng.integers(1, 12))
        pairs = rng.integers(0, 8, (count, 2)).tolist()
        found = Occurrences.of(*np.array(pairs, np.int32).T)
        first, others = pairs[0], pairs[1:]
        ids = [name for pair in others for name in pair]
        assert found.others == len(others)
        assert found.again == sum(pair == first for pair in others)
        assert found.apart == sum(bool(set(pair) & set(first)) and pair != first for pair in others)
        assert found.lone == sum(ids.count(u) == ids.count(v) == 1 for u, v in others)


# ---- ids ---------------------------------------------------------------------------------------


def test_whole_numbers_written_as_decimals(file):
    file.write_text("source,target\n1.0,2\n2.0,30\n")
    graph = Graph.read(file)
    assert graph.nodes.tolist() == [1, 2, 30]
    assert "ids like '1.0' are read as whole numbers" in graph.notes[0]
    file.write_text("1.0,2.5\n2.0,3\n")
    assert Graph.read(file, header=False).nodes.tolist() == ["1.0", "2.0", "2.5", "3"]


@pytest.mark.parametrize("missing", ["NA", "nan", "NaN", "null", "None", "<NA>", "N/A", ""])
def test_missing_ends_are_refused_with_their_line(file, missing):
    for rows in (["1,2", f"2,{missing}"], ["ann,bob", f"{missing},ann"]):
        file.write_text("\n".join(rows))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(GraphError, match=r"line 2: .* lacks an id"):
                Graph.read(file)
    file.write_text('"NA","DE"\n"DE","FR"\n')
    assert Graph.read(file).nodes.tolist() == ["DE", "FR", "NA"]
