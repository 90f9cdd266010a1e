"""Tables of results: mean and spread, best and second best, ours beside the published figures."""

import math

import pytest

from dhilgt.benchmark import Results, tables
from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.show.render import render
from dhilgt.errors import ConfigError
from tests.benchmark.cases import broken, changed, line
from tests.cli.cases import fails, ok

SCORES = {
    "dhilgt": (0.85, 0.86, 0.87),
    "nagphormer": (0.86, 0.87, 0.88),
    "gcn": (0.88, 0.88, 0.88),
    "sage": (0.70, 0.80, None),
    "mlp": (0.70, 0.71, 0.75),
}


def fixed():
    """Three seeds on two datasets: whole rows, a seed without score, no memory, no time."""
    lines = []
    for system, scores in SCORES.items():
        lines += [line(system, "cora", seed, score) for seed, score in enumerate(scores)]
    lines.append(broken("difformer", "cora", 0, "oom", "CUDA out of memory"))
    lines.append(broken("difformer", "cora", 1, "over-budget", "not done after 600 seconds"))
    lines += [line("dhilgt", "tolokers", seed, 0.8, inference_seconds=31.04) for seed in range(3)]
    lines += [
        line("gcn", "tolokers", seed, 0.79, beside=2, inference_device="cpu", epoch_seconds=0.00123)
        for seed in range(3)
    ]
    lines += [line("mlp", "tolokers", 0, 0.9)]
    return lines


MARKDOWN = """\
| | tolokers<br>Pre. | tolokers<br>Epoch | tolokers<br>Infer | tolokers<br>Mem. | tolokers<br>ROC AUC | cora<br>Pre. | cora<br>Epoch | cora<br>Infer | cora<br>Mem. | cora<br>Acc |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
| DIFFormer | – | – | – | – | not run | – | – | – | – | OOM, over budget |
| *DIFFormer, as published* | – | 0.16 | 85.8\\* | 0.88 | 74.88 ± 0.59 | – | 0.11 | 0.13\\* | 1.2 | 83.37 ± 0.50 |
| NAGphormer | – | – | – | – | not run | 0.50 | 0.0120 | 0.0040 | 1.25 | <u>87.00 ± 1.00</u> |
| *NAGphormer, as published* | 1.59 | 0.11 | 0.02 | 0.5 | 79.32 ± 0.39 | 0.68 | 0.01 | 0.06 | 0.5 | 76.96 ± 0.73 |
| GCN | 0.50† | 0.0012† | 0.0040\\*† | 1.25 | <u>79.00 ± 0.00</u> | 0.50 | 0.0120 | 0.0040 | 1.25 | **88.00 ± 0.00** |
| GraphSAGE | – | – | – | – | not run | 0.50 | 0.0120 | 0.0040 | 1.25 | 75.00 ± 7.07 (2 of 3) |
| LINKX | – | – | – | – | not run | – | – | – | – | not run |
| MLP | 0.50 | 0.0120 | 0.0040 | 1.25 | 90.00 (1 of 3) | 0.50 | 0.0120 | 0.0040 | 1.25 | 72.00 ± 2.65 |
| DHIL-GT | 0.50 | 0.0120 | 31.0 | 1.25 | **80.00 ± 0.00** | 0.50 | 0.0120 | 0.0040 | 1.25 | 86.00 ± 1.00 |
| *DHIL-GT, as published* | 1.9 | 0.17 | 0.02 | 7.2 | 79.86 ± 0.47 | 0.42 | 0.05 | 0.005 | 10.1 | 85.58 ± 0.18 |

- Test scores in per cent: mean ± standard deviation over 3 seeds, best and second best marked among rows with all seeds.
- Seconds for precomputation, an epoch (median) and the inference of the test nodes; GB of GPU memory at the most.
- Ours on H200, 16 cores of Xeon, torch 2.9.
- As published: one A30 GPU of 24 GB, 32 Xeon cores.
- † measured in a run of several cells at once: not to be compared as a time.
- \\* inference on the host: ours where the graph did not fit the GPU, the published as the paper states.
- Published columns of cora, citeseer and pubmed look like two protocols (our reading): several systems are 5 to 12 points below what is known of them on random 60/20/20 splits.
- difformer, cora, seed 0: oom (CUDA out of memory).
- difformer, cora, seed 1: over-budget (not done after 600 seconds).
"""  # noqa: E501


def test_markdown_is_exactly_this():
    assert render(tables(fixed()), "md") == MARKDOWN


LATEX = r"""\begin{tabular}{l|rrrrr}
\toprule
& \multicolumn{5}{c}{cora} \\
& Pre. & Epoch & Infer & Mem. & Acc \\
\midrule
GCN & 0.50 & 0.0120 & 0.0040 & 1.25 & \textbf{89.00 $\pm$ 1.41} \\
GraphSAGE & -- & -- & -- & -- & not run \\
LINKX & -- & -- & -- & -- & not run \\
MLP & -- & -- & -- & -- & not run \\
DHIL-GT & 0.50 & 0.0120 & 0.0040 & 1.25 & \underline{86.00 $\pm$ 1.41} \\
\textit{DHIL-GT, as published} & 0.42 & 0.05 & 0.005 & 10.1 & 85.58 $\pm$ 0.18 \\
\bottomrule
\end{tabular}
"""


def two_systems(data="cora"):
    ours = [line("dhilgt", data, seed, 0.85 + seed / 50) for seed in (0, 1)]
    return ours + [line("gcn", data, seed, 0.88 + seed / 50) for seed in (0, 1)]


def test_latex_is_exactly_this():
    found = render(tables(two_systems()), "latex")
    assert found.partition(r"\begin{itemize}")[0] == LATEX
    assert r"mean $\pm$ standard deviation over 2 seeds" in found
    assert found.endswith("\\end{itemize}\n")


HTML = """\
<div><table>
<thead><tr><td></td><th colspan="5" scope="colgroup">cora</th></tr>
<tr><td></td><th scope="col">Pre.</th><th scope="col">Epoch</th><th scope="col">Infer</th><th scope="col">Mem.</th><th scope="col">Acc</th></tr></thead>
<tbody>
<tr><th scope="row">GCN</th><td>0.50</td><td>0.0120</td><td>0.0040</td><td>1.25</td><td><b>89.00 ± 1.41</b></td></tr>
<tr><th scope="row">GraphSAGE</th><td>–</td><td>–</td><td>–</td><td>–</td><td>not run</td></tr>
<tr><th scope="row">LINKX</th><td>–</td><td>–</td><td>–</td><td>–</td><td>not run</td></tr>
<tr><th scope="row">MLP</th><td>–</td><td>–</td><td>–</td><td>–</td><td>not run</td></tr>
<tr><th scope="row">DHIL-GT</th><td>0.50</td><td>0.0120</td><td>0.0040</td><td>1.25</td><td><u>86.00 ± 1.41</u></td></tr>
<tr class="published"><th scope="row">DHIL-GT, as published</th><td>0.42</td><td>0.05</td><td>0.005</td><td>10.1</td><td>85.58 ± 0.18</td></tr>
</tbody></table></div>
"""  # noqa: E501


def test_html_is_exactly_this():
    found = render(tables(two_systems()), "html")
    assert found.startswith("<!DOCTYPE html>")
    assert HTML in found
    assert found.endswith("</html>\n")


# ---- ranks and states --------------------------------------------------------------------------


def marks(lines, metric_at=-1):
    (table,) = tables(lines)
    return {row.label: row.entries[0][metric_at].mark for row in table.rows if not row.published}


def entry(lines, label, at=-1):
    (table,) = tables(lines)
    return next(row.entries[0][at].text for row in table.rows if row.label == label)


def test_equal_means_share_a_place():
    lines = [line(s, "cora", 0, v) for s, v in [("gcn", 0.8), ("mlp", 0.8), ("sage", 0.7)]]
    lines.append(line("linkx", "cora", 0, 0.6))
    found = marks(lines)
    assert [found[name] for name in ("GCN", "MLP", "GraphSAGE", "LINKX")] == [
        "best", "best", "second", "",
    ]  # fmt: skip


def test_a_row_with_fewer_seeds_is_not_ranked():
    lines = [line(name, "cora", seed, 0.8) for seed in range(2) for name in ("gcn", "sage")]
    lines.append(line("mlp", "cora", 0, 0.9))
    assert marks(lines) == {"GCN": "best", "MLP": "", "GraphSAGE": "best", "LINKX": ""}


def test_one_row_alone_is_not_the_best():
    assert set(marks([line("gcn", "cora", 0, 0.8)]).values()) == {""}


def test_undefined_scores_are_said_to_be_so_and_not_ranked():
    lines = [line("gcn", "cora", 0, None), line("mlp", "cora", 0, 0.5)]
    lines.append(line("sage", "cora", 0, 0.4))
    assert entry(lines, "GCN") == "undefined"
    assert marks(lines)["MLP"] == "best"
    assert marks(lines)["GCN"] == ""


def test_a_dataset_with_two_scores_has_a_column_and_a_rank_for_each():
    lines = [
        line("gcn", "genius", 0, {"accuracy": 0.8, "roc_auc": 0.9}),
        line("mlp", "genius", 0, {"accuracy": 0.85, "roc_auc": 0.7}),
    ]
    (table,) = tables(lines)
    assert table.columns[0][-2:] == ("Acc", "ROC AUC")
    assert marks(lines, -2)["MLP"] == marks(lines, -1)["GCN"] == "best"
    assert marks(lines, -2)["GCN"] == marks(lines, -1)["MLP"] == "second"


def test_stand_ins_have_times_and_no_scores():
    lines = [line("gcn", "penn94-like", 0, 0.99), line("dhilgt", "penn94-like", 0, 0.98)]
    (table,) = tables(lines)
    assert entry(lines, "GCN") == "–"
    assert entry(lines, "GCN", 1) == "0.0120"
    assert set(marks(lines).values()) == {""}
    assert entry(lines, "DHIL-GT, as published", 0) == "31"
    assert any("stand-in for penn94" in note for note in table.notes)


def test_without_a_gpu_memory_is_that_of_the_host():
    where = {"device": "cpu", "gpus": [], "cpu": "Xeon", "cpus": 2, "torch": "2.9"}
    one = line("gcn", "cora", 0, 0.8, gpu_peak_bytes=0, environment=where, inference_device="cpu")
    assert entry([one], "GCN", 3) == "0.90 host"
    assert entry([one], "GCN", 2) == "0.0040"  # no mark: it was trained there too


def test_rows_say_how_they_were_made():
    lines = [
        line("gcn", "cora", 0, 0.8),
        line("gcn", "cora", 0, 0.8, variant="tuned"),
        line("gcn", "cora", 0, 0.8, trials=20),
        line("dhilgt", "cora", 0, 0.8, recipe="best"),
        line("dhilgt", "cora", 0, 0.8, trials=20, recipe="best"),
    ]
    (table,) = tables(lines, published=False)
    assert [row.label for row in table.rows] == [
        "GCN", "GCN (tuned)", "GCN (20 trials)", "GraphSAGE", "LINKX", "MLP",
        "DHIL-GT (recipe best)", "DHIL-GT (recipe best, 20 trials)",
    ]  # fmt: skip


def test_datasets_stand_in_the_order_of_the_paper_three_by_three():
    lines = [line("gcn", name, 0, 0.5) for name in ("cora", "pubmed", "genius", "chameleon")]
    lines.append(line("gcn", "generated:50", 0, 0.5))
    assert [table.data for table in tables(lines)] == [
        ("chameleon", "genius", "cora"), ("pubmed", "generated:50"),
    ]  # fmt: skip
    assert len(tables(lines, across=1)) == 5


def test_what_a_message_says_does_no_harm():
    message = "<b>&_$%|*\\{x}</b>"
    lines = [*two_systems(), broken("mlp", "cora", 0, "failed", message)]
    assert r"&lt;b&gt;&amp;\_$%\|\*\\{x}&lt;/b&gt;" in render(tables(lines), "md")
    latex = render(tables(lines), "latex")
    assert r"<b>\&\_\$\%|$^\ast$\textbackslash{}\{x\}</b>" in latex
    assert "&lt;b&gt;&amp;_$%" in render(tables(lines), "html")


def test_trials_are_no_rows():
    lines = [line("gcn", "cora", 0, 0.8), line("mlp", "cora", 0, 0.8, trial=1)]
    assert entry(lines, "MLP") == "not run"
    with pytest.raises(ConfigError, match="choose md, latex, html"):
        render(tables(lines), "pdf")


def test_published_figures_are_whole():
    figures = published_figures()["figures"]
    assert len(figures) == 12
    for name, rows in figures.items():
        assert set(rows) == {
            "difformer", "polynormer", "nagphormer", "ansgt", "goat", "hsgt", "dhilgt",
        }  # fmt: skip
        for system, row in rows.items():
            if row.get("status") == "oom":
                assert (name, system) == ("ogbn-mag", "ansgt")
                continue
            assert 25 < row["score"] < 97
            assert 0 < row["sd"] < 9
            assert all(v is None or (v > 0 and math.isfinite(v)) for v in row.values())
            assert (row["precompute"] is None) == (system in ("difformer", "polynormer"))
    assert figures["ogbn-mag"]["dhilgt"] == {
        "precompute": 7739, "epoch": 14.5, "inference": 0.16, "memory": 6.7, "score": 33.74,
        "sd": 0.24,
    }  # fmt: skip
    assert figures["twitch-gamer"]["goat"]["precompute"] == 3348


# ---- the commands ------------------------------------------------------------------------------


@pytest.mark.full
def test_a_table_by_one_command_and_again_with_resume(tmp_path):
    path = tmp_path / "r.jsonl"
    command = (
        "bench", "table", "--models", "gcn", "--data", "generated:40", "--seeds", "0-1",
        "--epochs", "2", "--in-process", "--device", "cpu", "-o", path,
    )  # fmt: skip
    first = ok(*command)
    assert "not run" not in first.stdout
    assert "[8/8] mlp generated:40 seed 1: accuracy" in first.stderr
    assert len(Results(path).lines()) == 2 * 4
    assert "pass --resume" in fails(*command)
    again = ok(*command, "--resume")
    assert again.stdout == first.stdout == ok("bench", "show", path).stdout
    assert "0 run, 8 were done" in again.stderr
    assert ok(*command, "--resume", "--quiet").stderr == ""


def test_show_writes_files_and_joins_several(tmp_path):
    one, two, page = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "t.html"
    for path, lines in ((one, two_systems()), (two, [line("mlp", "cora", 0, 0.9)])):
        with Results(path).open(resume=False) as results:
            for item in lines:
                results.add(item)
    assert ok("bench", "show", one, two, "--format", "html", "-o", page).stdout == ""
    assert "<td>90.00 (1 of 2)</td>" in page.read_text(encoding="utf-8")
    assert "as published" not in ok("bench", "show", one, "--no-published").stdout


def test_refusals_of_the_commands(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    assert "holds no cells" in fails("bench", "show", tmp_path / "empty.jsonl")
    assert "is not there" in fails("bench", "show", tmp_path / "nothing.jsonl")
    assert "none of md, latex and html" in fails("bench", "show", "x", "--format", "pdf", code=2)
    assert "did you mean 'gcn'" in fails("bench", "table", "--models", "gnc")
    assert "range like 0-9" in fails("bench", "table", "--seeds", "5-1", code=2)
    assert not (tmp_path / "bench.jsonl").exists()


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch):
    from dhilgt.benchmark.running import contenders

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(contenders, "contender", stop)
    monkeypatch.setattr("sys.argv", ["dhilgt", "bench", "table", "--seeds", "0"])
    from tests.cli.cases import run

    found = run(
        "bench", "table", "--models", "mlp", "--data", "generated:40", "--in-process",
        "-o", tmp_path / "r.jsonl",
    )  # fmt: skip
    assert found.exit_code == 130
    assert "go on with: dhilgt bench table --seeds 0 --resume" in found.stderr


def test_scores_of_trainings_that_time_ended_are_neither_shown_nor_ranked():
    lines = [line("gcn", "cora", seed, 0.8, out_of_time=seed == 1) for seed in range(2)]
    for system, score in (("mlp", 0.7), ("sage", 0.6)):
        lines += [line(system, "cora", seed, score) for seed in range(2)]
    (table,) = tables(lines)
    text = render([table], "md")
    assert "cut short |" in text
    assert "80.00" not in text
    assert "**70.00 ± 0.00**" in text
    assert "- cut short: a limit of time ended one or more of the trainings before" in text


def test_lines_without_a_hash_are_counted_under_the_table():
    lines = [line("gcn", "cora", 0, 0.8), changed(line("gcn", "cora", 1, 0.8), format=1)]
    assert "1 of 2 lines are of an earlier format, without a hash." in render(tables(lines), "md")
