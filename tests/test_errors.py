"""Messages mention arguments: as Python in `str(error)`, as parts for a command line."""

import pickle
import warnings

import pytest

from dhilgt.errors import (
    ConfigError,
    DhilgtError,
    GraphError,
    GraphWarning,
    Mention,
    TrainingInterrupted,
    about,
    argument,
    element,
    setting,
    warn,
    wording,
)


@pytest.mark.parametrize(
    ("mention", "text"),
    [
        (argument("num_nodes"), "num_nodes"),
        (argument("nodes", ...), "nodes=..."),
        (argument("weights", "ignore"), "weights='ignore'"),
        (argument("resume", True), "resume=True"),
        (argument("columns", (0, 1)), "columns=(0, 1)"),
        (setting("size", 300), "size = 300"),
        (setting("decay", None), "decay = None"),
        (element("src", 3), "src[3]"),
        (element("src", 3, "a; b"), "src[3] = 'a; b'"),
        (wording("a call", "a command"), "a call"),
    ],
)
def test_a_message_reads_as_python(mention, text):
    assert str(GraphError(f"before {mention}; after")) == f"before {text}; after"


def test_numpy_values_read_as_numbers():
    numpy = pytest.importorskip("numpy")
    assert str(GraphError(argument("num_nodes", numpy.int64(3)))) == "num_nodes=3"
    assert str(GraphError(element("dst", numpy.int64(2), numpy.float32(0.1)))) == "dst[2] = 0.1"


def test_an_error_is_about_the_argument_it_begins_with():
    assert ConfigError(f"{setting('size', 300)}; pass less").argument == "size"
    assert GraphError(f"x.csv exists; pass {argument('overwrite', True)}").argument is None
    assert GraphError("features has 3 rows", argument="features").argument == "features"
    assert DhilgtError("plain").argument is None


def test_a_block_names_the_argument_it_is_about():
    with pytest.raises(GraphError) as caught, about("labels"):
        raise GraphError("3 entries")
    assert (caught.value.argument, str(caught.value)) == ("labels", "3 entries")
    with pytest.raises(GraphError) as caught, about("labels"):
        raise GraphError(f"{argument('threads', 0)}; pass more")
    assert caught.value.argument == "threads"


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "{name}", "%s", "\\", "'\"", "\x00\n"),
        *("\ue000", "\ue001 \ue000", "\ue000\ue001", "\ue000[1, 2]\ue001", '\ue000"ab"\ue001'),
        '\ue000["a", 1, {}, 2]\ue001',
        pytest.param("\ue000" + "[" * 100_000 + "\ue001", id="deeply nested"),
    ],
)
def test_text_of_a_user_stays_as_it_is(text):
    error = GraphError(f"{text}; pass {argument('separator', text)} {text}")
    assert str(error) == f"{text}; pass separator={text!r} {text}"
    assert error.mentions("separator")
    assert not error.mentions("columns")


def test_a_quoted_message_keeps_its_mentions():
    first = GraphError(f"{element('src', 3, 'a; b')} is bad; pass {argument('num_nodes', 4)}")
    second = GraphError(f"edges.csv: {first.quotable}", argument=first.argument)
    assert str(second) == "edges.csv: src[3] = 'a; b' is bad; pass num_nodes=4"
    assert second.mentions("num_nodes")
    assert second.argument == "src"
    assert str(GraphError(second.problem)) == "edges.csv: src[3] = 'a; b' is bad"


def test_mentions_survive_another_process():
    error = ConfigError(f"{setting('size', 300)}; pass less")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.parts) == (ConfigError, str(error), error.parts)
    assert again.argument == "size"


def test_warnings_and_interruptions_mention_arguments_too():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn(f"slow; pass {argument('threads', 2)}")
    assert str(caught[0].message) == "slow; pass threads=2"
    assert caught[0].category is GraphWarning
    assert caught[0].filename == __file__
    assert caught[0].message.parts == ("slow; pass ", Mention("threads=2", "threads", "2"))
    stop = TrainingInterrupted(f"stopped; go on with{wording(' fit(...) or', '')}: cmd", 15)
    assert str(stop) == "stopped; go on with fit(...) or: cmd"
    assert stop.signum == 15
