"""Every number in the prose of the pages of results is carried by the lines of the runs."""

import json

import pytest
from docs.make import figures, readme_table, sentences

from tests.benchmark.cases import line


@pytest.mark.parametrize("page", sentences.PAGES | sentences.FURTHER)
def test_a_page_has_the_sentences_that_its_lines_give(page):
    assert sentences.missing(page) == []


@pytest.mark.parametrize("page", sentences.PAGES)
def test_no_number_of_a_page_is_without_a_line(page):
    assert sentences.uncarried(page) == []


def test_all_pages_of_results_are_checked():
    pages = {path.relative_to(figures.ROOT).as_posix() for path in figures.RESULTS.glob("*.md")}
    pages = {page for page in pages if not page.endswith("-table.md")}
    assert pages == set(sentences.PAGES)


def test_definitions_are_on_their_pages():
    for page, phrases in sentences.DEFINITIONS.items():
        text = sentences.plain((figures.ROOT / page).read_text(encoding="utf-8"))
        assert [phrase for phrase in phrases if phrase not in text] == [], page


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """A page with one sentence, and its line."""
    lines = tmp_path / "runs.jsonl"
    lines.write_text(json.dumps({"seconds": 2.04}) + "\n", encoding="utf-8")

    def told():
        yield f"A run takes {json.loads(lines.read_text(encoding='utf-8'))['seconds']:.1f} s"

    monkeypatch.setattr(sentences, "ROOT", tmp_path)
    monkeypatch.setattr(sentences, "PAGES", {"page.md": told})
    monkeypatch.setattr(sentences, "FURTHER", {})
    monkeypatch.setattr(sentences, "DEFINITIONS", {"page.md": ("95 % interval",)})
    return tmp_path / "page.md"


def test_a_sentence_may_be_broken_into_lines_and_code_has_any_number(drawn, capsys):
    drawn.write_text(
        "A run takes\n2.0 s (95 % interval), see [`x=3`](page5.md).\n\n```sh\nrun --jobs 8\n```\n",
        encoding="utf-8",
    )
    assert sentences.main() == 0
    assert "every number is carried" in capsys.readouterr().out


def test_a_number_that_no_line_gives_is_found_with_its_place(drawn, capsys):
    drawn.write_text("A run takes 1.9 s, three times as fast as H200 at 476.", encoding="utf-8")
    assert sentences.missing("page.md") == ["A run takes 2.0 s"]
    assert len(sentences.uncarried("page.md")) == 2
    assert sentences.main() == 1
    said = capsys.readouterr().out
    assert "page.md: should have: A run takes 2.0 s" in said
    assert "at 476. …" in said


# ---- the rows of the README --------------------------------------------------------------------


def test_the_rows_of_the_readme_are_those_of_its_lines():
    readme = (figures.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_table.readme_text(readme) == readme


def test_a_row_of_the_readme_needs_scores_of_all_splits():
    records = []
    for seed in (10, 11, 12):
        records.append(line("dhilgt", "cora", seed, 0.8 + 0.02 * (seed - 10), recipe="auto"))
        records.append(line("mlp", "cora", seed, 0.7))
    records += [line("gcn", "cora", seed, 0.9) for seed in (10, 11)]
    records += [
        line("sgformer", "cora", seed, 0.9, out_of_time=seed == 11) for seed in (10, 11, 12)
    ]
    records.append(line("gcn", "cora", 0, 0.1, recipe="times"))
    rows = readme_table.table(records).splitlines()
    assert rows[0] == "| test score, per cent | cora |"
    assert "| DHIL-GT, default | 82.00 ± 2.00 |" in rows
    assert "| MLP | 70.00 ± 0.00 |" in rows
    assert not any("GCN" in row for row in rows), "one split of three is missing"
    assert not any("SGFormer" in row for row in rows), "a training that a clock ended has no score"
    assert readme_table.table([]) == "*Not measured yet.*\n"
