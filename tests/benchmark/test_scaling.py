"""Larger and larger graphs: measured until a system no longer fits, fitted, held against claims."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhilgt import baselines
from dhilgt.benchmark import Limits, Results, models
from dhilgt.benchmark.experiments import growth, growth_plot, scaling
from dhilgt.benchmark.experiments.growth import Power, fit
from dhilgt.benchmark.experiments.scaling import GraphSizes, run_scaling, stopped_before
from dhilgt.benchmark.running import data
from dhilgt.benchmark.running.data import Generated
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.show.render import render
from dhilgt.classifier.cache import Cache
from dhilgt.errors import ArtifactError, ConfigError, DatasetError
from tests.benchmark.cases import changed, scripted, unrun
from tests.cli.cases import fails, ok

HERE = Limits(apart=False, device="cpu")
SMALL = GraphSizes((40, 80, 160), 4, 80, (2, 4, 8), 8, 3)
RESULTS = Path(__file__).parents[2] / "docs" / "results"

# ---- graphs by name ----------------------------------------------------------------------------


@given(
    st.builds(
        Generated,
        nodes=st.integers(20, 10**9 - 1),
        degree=st.integers(0, 10**6),
        features=st.integers(0, 10**6),
        classes=st.integers(0, 10**6),
        seed=st.integers(0, 10**9 - 1),
    )
)
def test_a_name_is_read_as_the_graph_that_has_it(graph):
    assert Generated.from_name(graph.name) == graph
    assert "," not in graph.name  # lists of datasets are cut at commas
    assert data.about(graph.name).name == graph.name


@pytest.mark.parametrize(
    "name",
    [
        "generated:", "generated:19", "generated:50:", "generated:50:degree",
        "generated:50:degree=x", "generated:50:power=2", "generated:50:degree=2:degree=3",
        "generated:50:nodes=60", "generated:50:degree=-1", "cora",
    ],
)  # fmt: skip
def test_other_names_are_refused_with_the_way_out(name):
    with pytest.raises(DatasetError, match=r"write generated:NODES .*:degree=NUMBER"):
        Generated.from_name(name)


def test_the_graph_is_as_its_name_says_in_any_order_of_the_options():
    one = data.load("generated:200:degree=10:features=5:classes=4", 0)
    assert (one.num_nodes, one.num_edges, one.features.shape, one.num_classes) == (
        200, 2000, (200, 5), 4,
    )  # fmt: skip
    assert data.chosen("generated:200:classes=4:degree=10,generated:200:degree=10:classes=4") == [
        "generated:200:degree=10:classes=4"
    ]
    other = data.load("generated:200:degree=10:seed=1", 0)
    assert other.fingerprint != one.fingerprint
    with pytest.raises(DatasetError, match=r"generated:30:degree=29.*lower average_degree"):
        data.load("generated:30:degree=29", 0)


def test_a_large_graph_is_made_once_and_a_small_one_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path))
    monkeypatch.setattr("dhilgt.benchmark.running.data._KEPT_EDGES", 400)
    made = []
    make = Generated._generated
    monkeypatch.setattr(Generated, "_generated", lambda self: made.append(self.name) or make(self))
    data.make_ready("generated:100")
    first, second = (data.load("generated:100", 0) for _ in range(2))
    assert made == ["generated:100"]
    assert [entry.kind for entry in Cache(tmp_path).entries()] == ["graphs"]
    assert first.fingerprint == second.fingerprint == make(Generated(100)).fingerprint
    assert np.array_equal(first.features, make(Generated(100)).features)
    data.make_ready("generated:99")
    assert made == ["generated:100"]


def test_a_cache_that_cannot_be_written_is_told_and_not_in_the_way(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("dhilgt.benchmark.running.data._KEPT_EDGES", 400)
    with pytest.warns(UserWarning, match="generated:100 cannot be kept"):
        assert data.load("generated:100", 0).num_nodes == 100


# ---- the run -----------------------------------------------------------------------------------


class Run:
    """Runs scripted systems in a file of results and remembers what was tried and skipped."""

    def __init__(self, path, monkeypatch):
        self.path, self.monkeypatch = path, monkeypatch

    def __call__(self, script, systems="gcn,mlp", limits=HERE, sizes=SMALL):
        self.tried, self.beyond = [], []

        def noted(cell):
            self.tried.append((cell.system, Generated.from_name(cell.data)))
            return script(cell.system, Generated.from_name(cell.data))

        scripted(self.monkeypatch, noted)
        with Results(self.path).open(resume=True) as results:
            wanted = models(systems, references=False)
            found = run_scaling(wanted, sizes, results, limits, beyond=self._skipped)
        self.lines = Results(self.path).lines()
        return found

    def _skipped(self, cell, line):
        self.beyond.append((cell.system, cell.data, line["status"]))


@pytest.fixture
def go(tmp_path, monkeypatch):
    return Run(tmp_path / "r.jsonl", monkeypatch)


def out_of_memory_from(edges):
    def script(system, graph):
        if system == "gcn" and graph.edges >= edges:
            raise MemoryError("no room")
        return 0.5

    return script


def test_graphs_are_run_by_size_and_each_once(go):
    assert go(lambda system, graph: 0.5).ran == 10
    edges = [graph.edges for system, graph in go.tried if system == "mlp"]
    assert edges == [160, 160, 320, 640, 640]  # (40, 4), (80, 2), (80, 4), (80, 8), (160, 4)
    assert {line["epochs"] for line in go.lines} == {2}  # as scripted
    assert {line["training"]["epochs"] for line in go.lines} == {3}
    assert go(lambda system, graph: 0.5).skipped == 10
    assert go.tried == []


def test_a_system_that_does_not_fit_is_recorded_once_and_not_tried_on_larger_graphs(go):
    found = go(out_of_memory_from(320))
    stopped = [line["data"] for line in go.lines if line["status"] == "oom"]
    assert stopped == ["generated:80"]
    assert go.beyond == [
        ("gcn", "generated:80:degree=8", "oom"),
        ("gcn", "generated:160", "oom"),
    ]
    assert (found.ran, found.left) == (8, 0)
    assert sum(system == "mlp" for system, _ in go.tried) == 5


@pytest.mark.parametrize(
    ("graph", "beyond"),
    [
        (Generated(80, 4), False),  # itself: tried again or not, but not beyond itself
        (Generated(80, 8), True),
        (Generated(160, 4), True),
        (Generated(160, 8), True),
        (Generated(160, 3), False),  # more edges, but a smaller degree
        (Generated(79, 40), False),  # more edges, but fewer nodes
    ],
)
def test_beyond_is_what_is_as_large_in_nodes_and_in_degree(graph, beyond):
    def line(cell, status):
        return changed(unrun(cell), status=status)

    full = line(Cell("gcn", "generated:80", 0), "oom")
    others = [
        line(Cell("gcn", "generated:20:degree=2", 0), "ok"),
        line(Cell("mlp", "generated:20:degree=2", 0), "oom"),
        line(Cell("gcn", "generated:20:degree=2", 0, "tuned"), "oom"),
        line(Cell("gcn", "cora", 0), "oom"),
    ]
    cell = Cell("gcn", graph.name, 0)
    assert stopped_before(cell, [*others, full], None) == (full if beyond else None)


def test_a_failure_is_tried_again_and_what_was_beyond_then_too(go):
    def broken(system, graph):
        if graph.nodes == 80:
            raise RuntimeError("a slip")
        return 0.5

    go(broken, "gcn")
    assert [line["status"] for line in go.lines] == ["ok", "failed"]
    go(lambda system, graph: 0.5, "gcn")
    assert [line["status"] for line in go.lines] == ["ok"] * 5


def test_more_time_opens_what_was_over_budget(go, monkeypatch):
    from dhilgt.benchmark.running.cell import OverBudget

    def slow(system, graph):
        if graph.edges >= 320:
            raise OverBudget
        return 0.5

    go(slow, "gcn", Limits(budget=60, apart=False, device="cpu"))
    assert [line["status"] for line in go.lines] == ["ok", "ok", "over-budget"]
    go(lambda *_: 0.5, "gcn", Limits(budget=60, apart=False, device="cpu"))
    assert go.tried == []
    go(lambda *_: 0.5, "gcn", Limits(budget=90, apart=False, device="cpu"))
    assert [line["status"] for line in go.lines] == ["ok"] * 5


def test_what_the_whole_time_does_not_suffice_for_is_left(go, monkeypatch):
    clock = iter(range(0, 10**6, 30))
    monkeypatch.setattr("dhilgt.benchmark.experiments.scaling.time.monotonic", lambda: next(clock))
    found = go(lambda *_: 0.5, "gcn", Limits(total=1.5, apart=False, device="cpu"))
    assert (found.ran, found.left) == (0, 5)


@pytest.mark.parametrize(
    "sizes", [GraphSizes((), degrees=()), GraphSizes((0,)), GraphSizes(features=0)]
)
def test_sizes_that_are_none_are_refused(sizes):
    with pytest.raises(ConfigError, match="above 0"):
        sizes.graphs()


# ---- powers ------------------------------------------------------------------------------------


@given(
    exponent=st.floats(-1, 4),
    factor=st.floats(1e-6, 1e6),
    count=st.integers(3, 9),
)
def test_the_power_of_an_exact_law_is_found_without_error(exponent, factor, count):
    sizes = 100.0 * 3.0 ** np.arange(count)
    found = fit(sizes, factor * sizes**exponent)
    assert found.exponent == pytest.approx(exponent, abs=1e-6)
    assert found.error == pytest.approx(0, abs=1e-5)


@given(st.integers(0, 10**6), st.floats(0, 3))
def test_noise_moves_the_power_by_a_few_of_its_standard_errors(seed, exponent):
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** np.linspace(2, 6, 60)
    found = fit(sizes, sizes**exponent * np.exp(0.1 * rng.standard_normal(60)))
    assert found.points == 30
    assert abs(found.exponent - exponent) < 6 * found.error
    # The error is the noise over the spread of the sizes; it is itself known to some 15 %.
    x = np.log(sizes[30:])
    assert found.error == pytest.approx(0.1 / np.sqrt(((x - x.mean()) ** 2).sum()), rel=0.7)


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
def test_power_and_error_are_those_of_numpy(values):
    sizes = np.array([10.0, 30.0, 200.0])
    line, covariance = np.polyfit(np.log(sizes), np.log(values), 1, cov=True)
    found = fit(sizes, values)
    assert found.exponent == pytest.approx(line[0], abs=1e-6)
    assert found.error == pytest.approx(covariance[0, 0] ** 0.5, abs=1e-6)


def test_the_smaller_half_does_not_count_but_three_points_are_kept():
    sizes = [1, 10, 100, 1000, 10_000, 100_000]
    assert fit(sizes, [7, 7, 7, 1e3, 1e4, 1e5]).exponent == pytest.approx(1)
    assert fit(sizes[:4], [1, 1, 10, 100]).points == 3


def test_too_few_points_have_no_error_or_no_power():
    assert fit([10, 1000], [1, 10]) == Power(pytest.approx(0.5), None, 2)
    assert str(fit([10, 1000], [1, 10])) == "0.50"
    assert fit([10], [1]) is None
    assert fit([10, 10, 10], [1, 2, 3]) is None


# ---- claims and verdicts -----------------------------------------------------------------------


def test_every_system_is_held_against_a_claim():
    for system in ("dhilgt", *baselines.names()):
        assert scaling.claim(system, "epoch") is not None
    assert scaling.claim("a system of tomorrow", "epoch") is None


@pytest.mark.parametrize(
    ("of_nodes", "of_edges", "said"),
    [
        (Power(1.1, 0.01, 4), Power(0.9, 0.01, 3), "confirms"),
        (Power(1.1, 0.01, 4), Power(0.1, 0.01, 3), "confirms"),
        (Power(1.2, 0.01, 4), Power(1.5, 0.01, 3), "corrects (n, m)"),
        (Power(1.2, 0.05, 4), None, "confirms (n)"),  # within two standard errors more
        (Power(1.0, 0.01, 4), Power(1.3, 0.01, 3), "corrects (m)"),
        (Power(0.4, 0.01, 4), Power(0.2, 0.01, 3), "below"),
        (Power(3.0, None, 2), None, "too little to tell"),
        (Power(3.0, 0.3, 3), None, "too little to tell"),
        (None, None, "too little to tell"),
    ],
)
def test_the_verdict_on_a_claim_that_is_linear_in_both(of_nodes, of_edges, said):
    assert growth.verdict(scaling.Claim("n + m", 1, 1), of_nodes, of_edges) == said


def test_what_nobody_claims_is_not_judged():
    for claimed in (None, scaling.NONE):
        assert growth.verdict(claimed, Power(3, 0.01, 4), Power(3, 0.01, 4)) == "–"


# ---- from lines to tables and curves -----------------------------------------------------------


def measured(system, nodes, degree=20, *, seconds, nbytes, **more):
    """The line of a system that takes so many seconds in every stage and so much memory."""
    cell = Cell(system, Generated(nodes, degree).name, 0)
    stages = {"epoch": {"seconds": 2 * seconds + 7, "times": 3, "device_peak_bytes": nbytes}}
    figures = {
        "status": "ok", "stages": stages, "first_epoch_seconds": 7.0, "precompute_seconds": seconds,
        "inference_seconds": seconds, "host_before_bytes": 5 * 10**8,
        "host_peak_bytes": 10**9 + nbytes,
    }  # fmt: skip
    return changed(unrun(cell), **(figures | more))


@pytest.fixture
def lines():
    """DHIL-GT linear in nodes and free of edges; GCN quadratic, and out of memory early."""
    found = []
    for nodes in (1000, 10_000, 100_000, 1_000_000):
        found.append(measured("dhilgt", nodes, seconds=1e-4 * nodes, nbytes=50_000 * nodes))
    for nodes in (1000, 10_000):
        found.append(measured("gcn", nodes, seconds=1e-8 * nodes**2, nbytes=1))
    stop = {"status": "oom", "message": "no\nroom", "graph": None, "stages": None}
    found.append(measured("gcn", 100_000, seconds=0, nbytes=0, **stop))
    for degree in (5, 10, 40):
        found.append(measured("dhilgt", 100_000, degree, seconds=10.0, nbytes=5 * 10**9))
    return found


def entry(tables, quantity, system, column):
    (table,) = [one for one in tables if one.data[0].startswith(growth.TITLES[quantity])]
    (row,) = [row for row in table.rows if row.label == system]
    heads = [head for heads in table.columns for head in heads]
    return [entry.text for entries in row.entries for entry in entries][heads.index(column)]


def test_the_series_are_told_apart(lines):
    by_nodes, by_edges = growth.series_of(lines)
    assert (by_nodes.fixed, by_nodes.sizes) == (20, (1000, 10_000, 100_000, 1_000_000))
    assert (by_edges.fixed, by_edges.sizes) == (100_000, (500_000, 1_000_000, 2_000_000, 4_000_000))
    with pytest.raises(ArtifactError, match="no results of generated graphs"):
        growth.series_of([measured("gcn", 100, seconds=1, nbytes=1, data="cora")])


def test_the_table_has_figures_powers_and_verdicts(lines):
    tables = growth.tables(lines)
    assert entry(tables, "epoch", "DHIL-GT", "100,000") == "10.0"  # the first one is not counted
    assert entry(tables, "epoch", "DHIL-GT", "power of n") == "1.00 ± 0.00"
    assert entry(tables, "epoch", "DHIL-GT", "power of m") == "0.00 ± 0.00"
    assert entry(tables, "epoch", "DHIL-GT", "verdict") == "confirms"
    assert entry(tables, "epoch", "GCN", "power of n") == "2.00"
    assert entry(tables, "epoch", "GCN", "verdict") == "too little to tell"
    assert entry(tables, "epoch", "GCN", "100,000") == "OOM"
    assert entry(tables, "epoch", "GCN", "1,000,000") == "beyond"
    assert entry(tables, "epoch", "GCN", "paper").endswith("†")
    assert entry(tables, "inference", "DHIL-GT", "verdict") == "–"
    # Half a GB of host memory is any graph's.
    assert entry(tables, "host", "DHIL-GT", "1,000") == "0.55"
    assert entry(tables, "host", "DHIL-GT", "power of n").startswith("1.0")
    # A batch is what training should take of a GPU.
    assert entry(tables, "gpu", "DHIL-GT", "verdict") == "corrects (n)"
    assert "gcn, n = 100,000, m = 2,000,000: oom (no room)." in tables[-1].notes
    for form in ("md", "latex", "html"):
        assert "n s³ + m s" in render(tables, form)


def test_a_line_without_a_gpu_or_of_one_epoch_has_its_figures():
    line = measured("mlp", 1000, seconds=1.0, nbytes=0)
    assert growth.figure(line, "gpu") is None
    once = {"epoch": line["stages"]["epoch"] | {"times": 1}}
    assert growth.figure(changed(line, stages=once), "epoch") == 7.0


@pytest.mark.full
def test_the_figure_names_every_curve_and_repeats_itself(lines, tmp_path):
    pytest.importorskip("matplotlib")
    growth_plot.draw_growth(lines, tmp_path / "one")
    growth_plot.draw_growth(list(reversed(lines)), tmp_path / "two")
    for kind in ("png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    for words in ("DHIL-GT", "× GCN", *growth.TITLES.values()):
        assert f"<!-- {words} -->" in text


@given(st.lists(st.floats(0, 1), max_size=11))
def test_names_are_moved_apart_within_the_panel_and_keep_their_order(heights):
    places = growth_plot.spread(heights, 0.1)
    order = np.argsort(heights, kind="stable")
    assert all(np.diff(np.array(places)[order]) >= 0.1 - 1e-5)
    assert all(-1e-5 <= place <= 1 + 1e-5 for place in places)
    if len(heights) < 2 or np.diff(np.sort(heights)).min() >= 0.1:
        assert places == pytest.approx(heights, abs=1e-6)


# ---- the command -------------------------------------------------------------------------------


@pytest.mark.full
def test_the_command_measures_resumes_and_renders(tmp_path):
    pytest.importorskip("matplotlib")
    path, into = tmp_path / "s.jsonl", tmp_path / "figures"
    given = [
        "bench", "scaling", "--models", "mlp,gcn", "--nodes", "200,800", "--degree", "4",
        "--degrees", "none", "--epochs", "1", "--device", "cpu", "--budget", "100",
        "--features", "8", "-o", path,
    ]  # fmt: skip
    first = ok(*given)
    assert "4 run; results in" in first.stderr
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert [line["graph"]["nodes"] for line in lines] == [200, 200, 800, 800]
    for line in lines:
        assert line["status"] == "ok", line["message"]
        assert line["own_process"]
        assert 0 < line["host_before_bytes"] < line["host_peak_bytes"]
    assert "0 run, 4 were done" in ok(*given, "--resume").stderr
    shown = ok("bench", "scaling", "--render-only", path, "--into", into)
    assert shown.stdout == first.stdout == (into / "scaling-table.md").read_text(encoding="utf-8")
    assert {file.name for file in into.iterdir()} == {
        "scaling-table.md", "scaling.png", "scaling.svg",
    }  # fmt: skip
    assert "holds results; pass --resume" in fails(*given)


def test_the_command_refuses_what_it_cannot_do_before_it_measures(tmp_path):
    path = tmp_path / "s.jsonl"
    assert "whole numbers" in fails("bench", "scaling", "--nodes", "2000,x", "-o", path, code=2)
    assert "--format" in fails("bench", "scaling", "--format", "rtf", "-o", path, code=2)
    assert "is not there" in fails("bench", "scaling", "--render-only", path)
    assert "at least 20 nodes" in fails("bench", "scaling", "--nodes", "5", "-o", path)
    assert not path.exists()


@pytest.mark.parametrize("folder", [RESULTS, RESULTS / "cpu"], ids=["gpu", "cpu"])
def test_the_tables_of_the_page_are_made_from_the_committed_lines(folder):
    shown = (folder / "scaling-table.md").read_text(encoding="utf-8")
    assert shown == render(growth.tables(Results(folder / "scaling.jsonl").lines()), "md")


def test_every_system_was_measured_on_three_sizes_at_least():
    files = (RESULTS / "cpu" / "scaling.jsonl", RESULTS / "cpu" / "systems" / "scaling.jsonl")
    lines = [line for file in files for line in Results(file).lines()]
    done = [line["system"] for line in lines if line["status"] == "ok" and "=20:" in line["data"]]
    assert {system for system in done if done.count(system) >= 3} == {"dhilgt", *baselines.names()}
