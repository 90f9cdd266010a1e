"""The runner that measures how every system grows, on graphs of next to no size."""

import json
import sys

import pytest
from bench import scaling_systems

from dhilgt import MemoryLimitError, baselines


def made_up(size, seconds, nbytes):
    found = {"nodes": size, "edges": 10 * size}
    for stage in scaling_systems.STAGES:
        found |= {f"{stage}_seconds": seconds, f"{stage}_bytes": nbytes}
    return found


@pytest.mark.parametrize("system", baselines.names())
def test_every_system_is_measured_in_all_stages(system):
    found = scaling_systems.point(system, 60, 4, 1, "cpu")
    assert (found["system"], found["nodes"], found["edges"]) == (system, 60, 240)
    assert "failed" not in found
    for stage in scaling_systems.STAGES:
        assert found[f"{stage}_seconds"] > 0
        assert found[f"{stage}_bytes"] >= 0
    assert found["inference_device"] == "cpu"
    assert json.loads(json.dumps(found)) == found


def test_every_system_is_held_against_a_claim():
    assert set(baselines.names()) <= set(scaling_systems.CLAIMS)


def test_the_powers_of_made_up_figures_are_found():
    points = [made_up(n, 1e-6 * n**2, 100 * n) for n in (100_000, 200_000, 400_000)]
    found = scaling_systems.exponents(points, "nodes")
    assert found["epoch_seconds"] == pytest.approx(2)
    assert found["prepare_bytes"] == pytest.approx(1)
    rows = scaling_systems.rows_of("gcn", found, {})
    assert rows[1] == (
        "gcn: epoch",
        "L n F² + L m F",
        "time n^2.00; memory n^1.00 (more than linear)",
    )


def test_figures_of_next_to_nothing_have_no_power():
    points = [made_up(n, 1e-5 * n, 10) for n in (10, 20, 40)]
    assert scaling_systems.exponents(points, "nodes") == {}
    assert scaling_systems.rows_of("mlp", {}, {})[0][2] == "too little to tell"


class FakeBench:
    """Gives figures without measuring."""

    threads = 1

    def __init__(self, answers, limit=10.0):
        self.answers, self.asked = iter(answers), []
        self.options = type("Options", (), {"device": "cpu", "limit": limit})

    def measured(self, part, *arguments):
        self.asked.append(arguments)
        return next(self.answers)


def test_a_series_ends_where_memory_or_time_does():
    sizes = [(10, 2), (20, 2), (40, 2)]
    slow = FakeBench([made_up(10, 1, 1), made_up(20, 9, 1), made_up(40, 99, 1)])
    assert len(scaling_systems.series(slow, "gcn", sizes)) == 2
    full = FakeBench([made_up(10, 1, 1), {"failed": "out of memory"}])
    assert len(scaling_systems.series(full, "gcn", sizes)) == 1
    assert [asked[1] for asked in full.asked] == [10, 20]


def test_running_out_of_memory_is_a_figure_too(monkeypatch):
    def refuse(*_, **__):
        raise MemoryLimitError("dense features take 9 GB")

    monkeypatch.setattr(scaling_systems, "_warm_up", lambda *_: None)
    monkeypatch.setattr(scaling_systems.baselines, "create", refuse)
    assert "9 GB" in scaling_systems.point("gcn", 60, 4, 1, "cpu")["failed"]


@pytest.mark.full
def test_the_whole_run_writes_lines_and_a_table(tmp_path, monkeypatch, capsys):
    given = ["--systems", "mlp", "--nodes", "200", "400", "--degrees", "2", "4"]
    given += ["--fixed-nodes", "200", "--results", str(tmp_path), "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["bench", *given])
    scaling_systems.main()
    text = (tmp_path / "scaling_systems.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["measure"] for line in lines] == ["point"] * 4 + ["fit"]
    assert all(line["machine"]["cores"] >= 1 for line in lines)
    table = (tmp_path / "scaling_systems-table.md").read_text(encoding="utf-8")
    assert table.count("| mlp: ") == 3
    assert "mlp: epoch" in capsys.readouterr().out
