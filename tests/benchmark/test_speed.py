"""Speed of the ways to compute attention: what is measured, and what is told about it."""

import json

import pytest
import torch
from typer.testing import CliRunner

from dhilgt.benchmark import speed
from dhilgt.benchmark.lines import check_line
from dhilgt.benchmark.speed.cases import Step, draw_batch
from dhilgt.cli.app import app
from dhilgt.errors import DhilgtError

torch.set_num_threads(1)
CPU = torch.device("cpu")
SMALL = ["--device", "cpu", "--batch", "4", "--slots", "3", "--width", "16", "--repeats", "1"]


def run(*arguments):
    return CliRunner().invoke(app, ["bench", "speed", *arguments])


def line_of(way="fused bf16", **settings):
    shape = {"rows": 8192, "slots": 32, "width": 128, "fill": 0.6}
    figures = {"ms_train": 100.0, "gib_train": 2.0, "ms_infer": 25.0, "gib_infer": 0.5}
    told = {"measure": "size", "main": True, "way": way, "packing": "auto", "recompute": False}
    return told | shape | figures | settings


@pytest.mark.parametrize("fill", [0.3, 0.6, 0.8, 1.0])
def test_batches_are_filled_as_wanted_with_padding_at_the_end(fill):
    _, index, spd, labels = draw_batch(CPU, 2000, 24, fill, nodes=100, channels=3)
    real = index >= 0
    assert abs(float(real.double().mean()) - fill) < 0.02
    assert real[:, 0].all()
    assert (real[:, :-1] | ~real[:, 1:]).all()  # no node stands behind padding
    assert torch.equal(spd, spd.transpose(1, 2))
    assert (spd[~real[:, :, None] | ~real[:, None, :]] == 255).all()
    assert len(labels) == 2000
    again = draw_batch(CPU, 2000, 24, fill, nodes=100, channels=3)
    assert torch.equal(again[1], index)


def test_a_step_learns_and_an_answer_does_not():
    step = Step("reference", "fp32", draw_batch(CPU, 6, 3, nodes=20, channels=4), 16, layers=1)
    before = [parameter.detach().clone() for parameter in step.model.parameters()]
    step.infer()
    assert all(map(torch.equal, before, step.model.parameters()))
    step.train()
    assert not all(map(torch.equal, before, step.model.parameters()))


def test_sizes_other_than_the_main_one_change_one_thing():
    shapes = speed.BatchSizes((8, 16), (4, 5), (16,), (0.8,)).shapes()
    assert shapes[0] == {"rows": 8, "slots": 4, "width": 16, "fill": 0.8}
    for shape in shapes[1:]:
        assert sum(shape[name] != shapes[0][name] for name in shape) == 1
    assert len(shapes) == 3


def test_all_ways_take_the_main_size_and_its_fills():
    ways = speed.parse_implementations("reference,sdpa:fp32,sdpa:bf16", CPU)
    lines = list(speed.measure(speed.BatchSizes((3, 4), (2,), (16,), (1.0, 0.5)), ways, CPU, 1))
    taken = [(line["rows"], line["fill"], line["way"]) for line in lines]
    names = ["reference fp32", "sdpa fp32", "sdpa bf16"]
    assert taken == [
        *((3, 1.0, name) for name in names),
        *((4, 1.0, name) for name in (names[0], names[2])),
        *((3, 0.5, name) for name in names),
    ]
    assert [line["main"] for line in lines] == [True] * 3 + [False] * 5
    assert all(line["ms_train"] > 0 and line["ms_infer"] > 0 for line in lines)
    assert {line["path"] for line in lines} == {"reference", "sdpa"}


@pytest.mark.parametrize("text", ["plain", "sdpa:fp16", "reference,,sdpa", "fused:bf16"])
def test_ways_that_are_not_there_are_refused(text):
    with pytest.raises(DhilgtError, match=r"no implementation of attention|runs on CUDA"):
        speed.parse_implementations(text, CPU)


def test_the_table_compares_with_the_first_way_of_a_size():
    lines = [
        line_of("reference fp32", ms_train=1500.0, ms_infer=600.0),
        line_of(),
        line_of(packing="off", ms_train=125.0),
        line_of(recompute=True, gib_train=1.0),
        line_of(rows=1024, gib_train=None, gib_infer=None),
    ]
    rows = speed.table(lines).splitlines()
    assert rows[2].startswith("| 8,192 | 32 | 128 | 60% | reference fp32 | 1,500.0 | 2.00 |")
    assert "fused bf16 | 100.0 (15.0 x) | 2.00 | 25.0 (24.0 x) |" in rows[3]
    assert "fused bf16, padding left in | 125.0 (12.0 x)" in rows[4]
    assert "fused bf16, layers computed twice" in rows[5]
    assert "| 100.0 |  | 25.0 |  |" in rows[6]
    assert len(rows) == 7


def test_other_measures_have_a_table_of_their_own():
    names = [f"ms_{part} {way}" for part in ("train", "infer") for way in ("reference fp32",)]
    small = {"measure": "small", "rows": 534, "fill": 0.6} | dict.fromkeys(names, 12.0)
    for part, graph in (("train", 1.4), ("infer", 0.5)):
        small |= {f"ms_{part} fused bf16": 8.0, f"ms_{part} fused bf16 graph": graph}
    sparse = {"measure": "sparse", "share": 0.1, "ms_graph": 9.0, "ms_kernels": 11.0}
    text = speed.table([line_of(), small, sparse, {"measure": "streamed", "share": 0.97}])
    assert "a training step of 534 nodes, 60% filled | 1.40 ms (kernel by kernel 8.0" in text
    assert "| 10% of a step of 9.0 ms (kernel by kernel 11.0) |" in text
    assert "| speed of streamed against resident rows | 97% |" in text


def test_the_command_writes_lines_a_table_and_a_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="a plot needs matplotlib")
    names = [tmp_path / name for name in ("s.jsonl", "table.md", "plot.png")]
    files = [
        option for pair in zip(("-o", "--table", "--plot"), names, strict=True) for option in pair
    ]
    done = run(*SMALL, "--fill", "0.7", *map(str, files))
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in names[0].read_text().splitlines()]
    assert [line["way"] for line in lines] == ["reference fp32", "sdpa fp32"]
    assert lines[0]["machine"]["device"] == "CPU"
    assert names[1].read_text() == speed.table(lines)
    assert names[2].read_bytes().startswith(b"\x89PNG")
    assert sorted(tmp_path.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["--slots", "0"], "no list of numbers", 2),
        (["--batch", "8,x"], "no list of numbers", 2),
        (["--fill", "1.5"], "no list of numbers", 2),
        (["--also", "huge"], "none of small, sparse, streamed", 2),
        (["--also", "small", "--device", "cpu"], "measured on a GPU", 1),
        (["--ways", "fused:bf16", "--device", "cpu"], "runs on CUDA", 1),
    ],
)
def test_wrong_usage_leaves_nothing_behind(tmp_path, monkeypatch, arguments, said, code):
    monkeypatch.chdir(tmp_path)
    done = run("--device", "cpu", *arguments)
    assert done.exit_code == code, done.output
    assert said in done.output
    assert list(tmp_path.iterdir()) == []


def test_what_was_measured_stays_when_the_rest_is_interrupted(tmp_path, monkeypatch):
    def measure(*_):
        yield line_of()
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "measure", measure)
    names = [str(tmp_path / name) for name in ("s.jsonl", "table.md")]
    done = run("--device", "cpu", "-o", names[0], "--table", names[1])
    assert done.exit_code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]
    line = json.loads((tmp_path / "s.jsonl").read_text())
    check_line(line)
    assert {name: line[name] for name in line_of()} == line_of()
    assert line["command"].split()[0] == "dhilgt"


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    done = run("--device", "cpu", "-o", str(tmp_path / "none" / "s.jsonl"))
    assert done.exit_code == 1
    assert "cannot be written" in done.output
