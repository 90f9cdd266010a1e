"""What must hold of every line under docs/results, whichever program wrote it."""

import hashlib
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from dhilgt.benchmark.experiments import protocol
from dhilgt.benchmark.experiments.paper import TIMES
from dhilgt.benchmark.lines import LINE_HASH, check_line
from dhilgt.benchmark.record import FORMAT, OK, OVER, Record
from dhilgt.benchmark.running import search
from dhilgt.errors import ArtifactError
from tests.benchmark import cases as drawn

RESULTS = Path(__file__).parents[2] / "docs" / "results"

# Lines of before there were hashes, by file, with the hash of the file: it stays as it is, or is
# removed or replaced as a whole and leaves this list.
WITHOUT_HASH = {
    "ablation.jsonl": "b5d1a9bd9e4f28e4",
    "cpu/scaling.jsonl": "263f7c0f437c13e3",
    "default-baselines.jsonl": "8866a7fa45b45073",
    "default-before.jsonl": "4561e602d142db37",
    "gpu.jsonl": "b0f7a2de9537b74c",
    "grow.jsonl": "c6ef23a8ddf623c2",
    "hierarchy.jsonl": "ab18aac5b7f781d9",
    "known.jsonl": "fa247a1bef5f9ba5",
    "labels.jsonl": "0e26f7b09415908b",
    "paper/times.jsonl": "4ddd146ccac1dffd",
    "scaling.jsonl": "5c9ce2a8ef862fbb",
    "scores/best/chameleon.jsonl": "e466d7c79bec3f6b",
    "scores/best/citeseer.jsonl": "6fe14826d822cb4e",
    "scores/best/cora.jsonl": "44d03a5d4a656a3c",
    "scores/best/physics.jsonl": "4ab1b341695941a6",
    "scores/best/pubmed.jsonl": "0dabd234c8c4dc26",
    "scores/best/squirrel.jsonl": "8ed13bcc5ed63f68",
    "scores/best/tolokers.jsonl": "471fb40d001273b5",
    "scores/paper/chameleon.jsonl": "9e69ded8f9184c36",
    "scores/paper/citeseer.jsonl": "0d05e5c5e7867f75",
    "scores/paper/cora.jsonl": "9eb4eb5327acaabb",
    "scores/paper/physics.jsonl": "4a296b54829ddece",
    "scores/paper/pubmed.jsonl": "e3484b1971d30649",
    "scores/paper/squirrel.jsonl": "88f7900054db7130",
    "scores/paper/tolokers.jsonl": "4768647f1b75bc84",
    "study.jsonl": "d3e265aba328fd41",
    "tokens.jsonl": "268cdc55a19fe232",
    "train.jsonl": "223ecc6e9e069e10",
}
# Two cells of ANS-GT had nine seconds, others more; their page says so, and they have no times.
UNEQUAL_BUDGETS = {"paper/times.jsonl"}
FILES = sorted(path.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("*.jsonl"))
FOLDER = re.compile(r"(?<![\w.:/])(/(tmp|home|root|work|mnt|usr|opt|data|Users|var)/|[A-Z]:\\|~/)")
ROW = ("system", "variant", "recipe", "data", "split", "trials")


def lines(name):
    return [json.loads(text) for text in (RESULTS / name).read_text(encoding="utf-8").splitlines()]


def cells(name):
    return [line for line in lines(name) if "variant" in line]


def tables_of_scores(name):
    """Whether a file has scores of several systems, for which there are seeds of evaluation."""
    return name.startswith(("paper/", "default"))


def strings(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


every_file = pytest.mark.parametrize("name", FILES)


def test_there_are_lines_and_the_list_of_old_files_names_no_other():
    assert len(FILES) >= 10
    assert set(WITHOUT_HASH) <= set(FILES)


@every_file
def test_lines_are_as_they_were_written(name):
    if name in WITHOUT_HASH:
        content = (RESULTS / name).read_bytes()
        assert hashlib.sha256(content).hexdigest()[:16] == WITHOUT_HASH[name]
        assert not any(LINE_HASH in line for line in lines(name))
        return
    for line in lines(name):
        check_line(line)
        assert line["command"].split()[0] in ("dhilgt", "python")
        if "variant" in line:
            assert line["format"] == FORMAT
            assert line["run_hash"] == Record.from_json(line).run_hash


def test_withdrawn_lines_are_in_no_other_file():
    withdrawn = {line[LINE_HASH] for line in lines("withdrawn.jsonl")}
    for name in set(FILES) - {"withdrawn.jsonl"}:
        assert not withdrawn & {line.get(LINE_HASH) for line in lines(name)}, name
    assert list((RESULTS / "paper").glob("*withdrawn*")) == [], "tables read the whole folder"


@every_file
def test_no_line_has_a_folder_of_a_machine(name):
    found = {text for line in lines(name) for text in strings(line) if FOLDER.search(text)}
    assert not found


@every_file
def test_a_cell_has_fewer_beside_it_than_the_run_allowed(name):
    for line in cells(name):
        assert 0 <= line.get("beside", 0) < line.get("jobs", 1), line["key"]


@every_file
def test_scores_are_those_of_cells_that_ended_well(name):
    for line in cells(name):
        scores = line.get("scores", {})
        if line["status"] != OK:
            assert line["message"]
            assert not scores
            continue
        if line.get("trial") is not None:
            assert not scores, "a trial is chosen by validation nodes"
            assert line["val_score"] is not None
        for part, by_metric in scores.items():
            for metric, score in by_metric.items():
                if score is None:
                    assert f"{part} {metric}" in line["score_notes"]
                elif metric in ("accuracy", "roc_auc", "macro_f1"):
                    assert 0 <= score <= 1


@every_file
def test_no_training_was_ended_by_a_clock(name):
    for line in cells(name):
        assert not line.get("out_of_time"), line["key"]
        assert (line.get("training") or {}).get("max_seconds") is None


@every_file
def test_no_cell_was_ended_by_a_smaller_budget_than_another_had(name):
    if name in UNEQUAL_BUDGETS:
        return
    budgets = {line.get("budget_seconds") for line in cells(name)}
    if any(line["status"] == OVER for line in cells(name)):
        assert len(budgets) == 1, budgets


@every_file
def test_rows_of_a_file_have_the_seeds_of_the_protocol(name):
    seeds = defaultdict(set)
    for line in cells(name):
        if line["recipe"] == TIMES:
            continue  # a short training, without a score
        if line.get("trial") is None:
            seeds[tuple(str(line.get(part)) for part in ROW)].add(line["seed"])
        else:
            assert line["seed"] in search.SEEDS
    if tables_of_scores(name):
        assert set().union(*seeds.values()) <= set(protocol.SEEDS)
    elif name in ("ablation.jsonl", "ablation-paper.jsonl", "study.jsonl"):
        assert len({frozenset(one) for one in seeds.values()}) == 1


@every_file
def test_every_system_of_a_file_had_the_same_search(name):
    searched = [line for line in cells(name) if line.get("trials") and line.get("trial") is None]
    assert len({line["trials"] for line in searched}) <= 1
    for line in searched:
        found = line["search"]
        assert found["trials"] == line["trials"]
        assert tuple(found["seeds"]) == search.SEEDS
        assert line["seed"] not in search.SEEDS


def test_a_graph_and_a_seed_have_one_split_in_all_files():
    splits, graphs = defaultdict(set), defaultdict(set)
    for name in FILES:
        for line in cells(name):
            where = (line["data"], line.get("split", "own"), line["seed"])
            if line.get("split_hash") is not None:
                splits[where].add(line["split_hash"])
            if line.get("graph"):
                graphs[line["data"]].add(line["graph"]["fingerprint"])
    assert all(len(found) == 1 for found in splits.values())
    assert all(len(found) == 1 for found in graphs.values())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dhilgt bench table --root=/home/me/data", True),
        ("/tmp/run/r.jsonl", True),
        ("~/graphs", True),
        ("dhilgt bench table -o docs/results/a.jsonl", False),
        ("60/20/20", False),
        ("https://example.org/tmp/x", False),
    ],
)
def test_folders_are_found(text, found):
    assert bool(FOLDER.search(text)) == found


# ---- the laws themselves -----------------------------------------------------------------------

LAWS = {
    "lines": test_lines_are_as_they_were_written,
    "folder": test_no_line_has_a_folder_of_a_machine,
    "beside": test_a_cell_has_fewer_beside_it_than_the_run_allowed,
    "scores": test_scores_are_those_of_cells_that_ended_well,
    "clock": test_no_training_was_ended_by_a_clock,
    "budget": test_no_cell_was_ended_by_a_smaller_budget_than_another_had,
    "seeds": test_rows_of_a_file_have_the_seeds_of_the_protocol,
    "search": test_every_system_of_a_file_had_the_same_search,
}
SEARCH = {
    "trials": 5, "trials_ok": 5, "seed": 0, "chosen": 0, "val_score": 0.8, "seconds": 1.0,
    "changes": {"model": {}, "training": {}}, "seeds": list(search.SEEDS), "trainings": 9,
}  # fmt: skip
FAULTS = {
    "lines": {"command": None},
    "folder": {"command": "dhilgt bench paper --root=/home/me/data"},
    "beside": {"beside": 20, "jobs": 3},
    "scores": {"status": "oom", "message": "out of memory"},
    "clock": {"out_of_time": True},
    "budget": {
        "status": "over-budget", "message": "late", "scores": {}, "budget_seconds": 9.0,
    },
    "seeds": {"seed": 3},
    "search": {"trials": 5, "search": SEARCH | {"seeds": [0]}},
}  # fmt: skip


def written(folder, **values):
    """A file of the comparison with two whole lines and one that differs in some values."""
    good = {"command": "dhilgt bench paper", "budget_seconds": 600.0}
    records = [drawn.line("gcn", "cora", seed, 0.8, **good) for seed in (10, 11)]
    records.append(drawn.changed(drawn.line("mlp", "cora", 12, 0.8, **good), **values))
    (folder / "paper").mkdir()
    path = folder / "paper" / "scores.jsonl"
    path.write_bytes(b"".join(record.line() + b"\n" for record in records))
    return "paper/scores.jsonl"


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_breaks_its_own_law_and_no_other(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RESULTS", tmp_path)
    name = written(tmp_path, **FAULTS[fault])
    broken = set()
    for law, check in LAWS.items():
        try:
            check(name)
        except (AssertionError, KeyError):
            broken.add(law)
    assert broken == {fault}


def test_lines_without_a_fault_keep_all_laws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RESULTS", tmp_path)
    name = written(tmp_path)
    for check in LAWS.values():
        check(name)


def test_an_edited_line_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RESULTS", tmp_path)
    name = written(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes().replace(b'"beside": 0', b'"beside": 20', 1))
    with pytest.raises(ArtifactError, match="was changed after it was written"):
        test_lines_are_as_they_were_written(name)
