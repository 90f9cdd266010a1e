"""One page with all results of a folder: what is shown, and that nothing in a file does harm."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt.benchmark import Cell, Results
from dhilgt.benchmark.experiments.ablation import ablation_cells
from dhilgt.benchmark.experiments.study import study_cells
from dhilgt.errors import ArtifactError
from dhilgt.report.site import SECTIONS, Section, Source, sections, write_site
from dhilgt.report.site.source import read_folder, read_lines
from dhilgt.report.site.tables import of_tables, plain
from dhilgt.store.files import canonical_json
from tests.benchmark.cases import line
from tests.benchmark.study_cases import scored
from tests.benchmark.study_cases import write as record_lines
from tests.cli.cases import fails, ok

DOCS = Path(__file__).parents[2] / "docs" / "results"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082"
)


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(canonical_json(one) + b"\n" for one in lines))
    return path


def page_of(folder, **options):
    return write_site(folder, folder / "site", **options).read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """A bit of everything that a folder of results may hold."""
    (tmp_path / "paper").mkdir()
    with Results(tmp_path / "paper" / "main.jsonl").open(resume=False) as results:
        results.add(line("gcn", "chameleon", 0, 0.5, trials=3))
        results.add(line("dhilgt", "chameleon", 0, 0.6, load_seconds=0.1))
    with Results(tmp_path / "mine.jsonl").open(resume=False) as results:
        results.add(line("mlp", "generated:50", 0, 0.5))
    run = {"metric": "accuracy", "scores": {"test": {"accuracy": 0.8}}}
    write(tmp_path / "scores" / "best" / "cora.jsonl", run, run)
    write(tmp_path / "gpu.jsonl", {"measure": "step", "ms": 12.5, "machine": {"gpu": "H200"}})
    write(tmp_path / "new.jsonl", {"what": "a thing", "value": 1234567, "deep": {"x": 0.5}})
    (tmp_path / "gpu-speed.png").write_bytes(PIXEL)
    (tmp_path / "hierarchy.png").write_bytes(PIXEL)
    return tmp_path


def headings(page):
    return re.findall(r"<h2 id=\"[^\"]*\">([^<]*)</h2>", page)


def test_all_that_is_there_is_shown_in_the_order_of_the_registry(folder):
    page = page_of(folder, title="My results")
    assert "<h1>My results</h1>" in page
    assert headings(page) == [
        "Contents", "All systems as they come", "All systems after an equal search",
        "Scores on public graphs", "Training and inference on a GPU", "Comparisons",
        "Other results", "Hardware and versions",
    ]  # fmt: skip
    assert "DHIL-GT, paper" in page
    assert "80.00 ± 0.00" in page
    assert ">12.5<" in page
    assert ">1,234,567<" in page
    assert page.count("data:image/png;base64,") == 2
    assert "H200, 16 cores" in page
    assert "dhilgt bench paper --table search" in page


def test_every_link_of_the_contents_leads_somewhere(folder):
    page = page_of(folder)
    links = re.findall(r'href="#([^"]+)"', page)
    assert len(links) == len(headings(page)) - 1
    assert all(f'<section id="{link}"' in page for link in links)


def test_the_page_needs_nothing_else_and_is_the_same_each_time(folder):
    page = page_of(folder)
    for word in re.findall(r"(?:src|href)=\"([^\"]*)\"", page):
        assert word.startswith(("#", "data:image/"))
    assert not re.search(r"@import|url\(|https?://", page)
    assert page_of(folder) == page


HOSTILE = "<script>alert(1)</script>\"'&\x00"


def test_what_a_file_says_is_text_and_never_markup(tmp_path):
    write(tmp_path / "a.jsonl", {HOSTILE: HOSTILE, "measure": HOSTILE, "machine": {"gpu": HOSTILE}})
    write(tmp_path / "<b>&.jsonl", {"x": 1})
    with Results(tmp_path / "c.jsonl").open(resume=False) as results:
        results.add(line("gcn", "generated:50", 0, 0.5, variant=HOSTILE, status="failed",
                         message=HOSTILE))  # fmt: skip
    page = page_of(tmp_path, title=HOSTILE)
    assert page.count("<script") == page.count("</script") == 1  # its own
    assert "<b>&" not in page
    assert "alert(1)&lt;/script&gt;" in page


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=9), VALUES, max_size=5), max_size=4))
def test_any_lines_can_be_shown(lines):
    result = plain([Source("any.jsonl", lines)])
    assert result.count("<table>") == result.count("</table>")
    assert "<script" not in result


def test_a_bad_file_costs_its_own_section_only(folder):
    (folder / "bad.jsonl").write_text("{nope\n", encoding="utf-8")
    write(folder / "list.jsonl", [1, 2])
    write(folder / "scores" / "best" / "pubmed.jsonl", {"metric": "accuracy"})
    page = page_of(folder)
    assert "Files left out" in headings(page)
    assert "line 1 is not a JSON object" in page
    assert "not shown as &#x27;Scores on public graphs&#x27; (KeyError" in page
    assert "All systems as they come" in headings(page)


def test_a_torn_last_line_is_no_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"x": 1}\n\n{"x": 2}\n{"x": ')
    assert read_lines(path) == [{"x": 1}, {"x": 2}]


def test_long_files_are_cut_and_the_page_says_so(tmp_path):
    write(tmp_path / "long.jsonl", *({f"c{n}": at for n in range(25)} for at in range(450)))
    page = page_of(tmp_path)
    assert "the first 400 of 450 lines; 5 more columns are in the file." in page
    assert page.count("<tr>") == 401


def test_hidden_files_and_what_is_too_large_are_passed_over(folder, monkeypatch):
    write(folder / ".hidden" / "x.jsonl", {"x": 1})
    monkeypatch.setattr("dhilgt.report.site.source._MOST_PICTURE_BYTES", 10)
    result = read_folder(folder)
    assert not [s for s in result.sources if "hidden" in s.name]
    assert result.pictures == []
    assert ("gpu-speed.png", f"it has {len(PIXEL)} bytes, more than 10") in result.left_out


def test_every_experiment_on_cells_has_its_section(tmp_path):
    whole = [Cell("dhilgt", "cora", seed) for seed in range(2)]
    for name, cells in {"ablation": ablation_cells(whole), "study": study_cells(whole)}.items():
        lines = [scored(cell, 0.5 + cell.seed / 10) for cell in cells]
        record_lines(tmp_path / f"{name}.jsonl", [*lines, *lines])  # of two, one counts
    page = page_of(tmp_path)
    assert headings(page)[1:3] == ["Ablation", "Parameter study"]
    assert "no virtual nodes" in page
    assert "Comparisons" not in headings(page)


def test_what_a_section_does_not_show_is_not_lost(tmp_path):
    record_lines(tmp_path / "ablation.jsonl", [line("gcn", "generated:50", 0, 0.5)])
    (tmp_path / "scores").mkdir()
    write(tmp_path / "scores" / "cora.jsonl", {"something": "else"})
    page = page_of(tmp_path)
    assert headings(page)[1:3] == ["Comparisons", "Other results"]
    assert ">else<" in page


def test_of_a_picture_as_pixels_and_as_a_drawing_the_drawing_is_shown(tmp_path):
    for name in ("a.png", "a.svg", "b.png"):
        (tmp_path / name).write_bytes(PIXEL)
    assert [one.name for one in read_folder(tmp_path).pictures] == ["a.svg", "b.png"]


def test_a_new_experiment_is_one_entry(folder, monkeypatch):
    own = Section("Things", "*new.jsonl", plain, "make things")
    monkeypatch.setattr(sections, "SECTIONS", [own, *SECTIONS])
    monkeypatch.setattr("dhilgt.report.site.page.SECTIONS", [own, *SECTIONS])
    page = page_of(folder)
    assert headings(page)[1] == "Things"
    assert "make things" in page
    assert ">new.jsonl<" in page
    assert page.count("a thing") == 1  # not among the others again


def test_tables_of_the_comparison_are_sections_too():
    from dhilgt.benchmark.show.tables import Row, Table, TableEntry

    one = Table(
        ("cora",), (("Acc",),), (Row("<GCN>", ((TableEntry("1 & 2", "best"),),)),), ("<note>",)
    )
    result = of_tables(lambda lines: [one] * len(lines))([Source("a", [{}]), Source("b", [{}])])
    assert result.count("<b>1 &amp; 2</b>") == 2
    assert "&lt;GCN&gt;" in result
    assert "&lt;note&gt;" in result


def test_the_results_of_the_documentation_can_all_be_shown(tmp_path):
    page = write_site(DOCS, tmp_path).read_text(encoding="utf-8")
    assert "Files left out" not in page
    assert len(page) < 8_000_000


def test_the_command(folder, tmp_path):
    result = ok("report", folder, "-o", tmp_path / "out", "--title", "T")
    assert result.stdout.strip() == str(tmp_path / "out" / "index.html")
    assert "is not a folder" in fails("report", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "holds no results" in fails("report", tmp_path / "empty")
    assert "is a file" in fails("report", folder, "-o", folder / "gpu.jsonl")


def test_where_there_is_nothing_to_show_nothing_is_written(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match="holds no results"):
        write_site(tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()
