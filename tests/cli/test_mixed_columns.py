"""Numbers, categories, booleans, dates and gaps in one table, from training to prediction."""

import pytest

from tests.cli.cases import Files, fails, ok

HEAD = "id,year,country,member,joined,bio"


def table(files, path, head=HEAD, change=None):
    """Write the people of `files`; `change` edits one row, a dict by column."""
    lines = [head]
    for at, name in enumerate(files.names):
        row = {
            "id": name,
            "year": "" if at == 3 else str(1950 + at % 40),
            "country": {"red": "DE", "green": "FR", "blue": ""}[files.classes[at]],
            "member": "true" if at % 2 else "false",
            "joined": f"2020-01-{1 + at % 28:02}",
            "bio": f"person number {at} writes a line about trees",
        }
        if change is not None:
            change(at, row)
        lines.append(",".join(row[column] for column in head.split(",")))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        found = Files(folder)
        found.mixed = table(found, folder / "people.csv")
        found.shown = ok(*found.train(features=found.mixed)).output
        yield found


def predicted(files, tmp_path, **changes):
    people = table(files, tmp_path / "people.csv", **changes)
    return ok("predict", files.folder / "run", "--edges", files.edges, "--features", people)


def test_kinds_are_shown_before_training(files):
    shown = " ".join(files.shown.split())
    for line in (
        "people.csv: 5 columns, 5 features a node",
        "numbers 1 year",
        "true or false 1 member",
        "dates 1 joined",
        "categories 1 country (2 values)",
        "left out 1 bio (text)",
    ):
        assert line in shown


def test_the_order_of_columns_does_not_matter(files, tmp_path):
    turned = "id,bio,joined,member,country,year"
    expected = ok("predict", files.folder / "run").stdout
    assert predicted(files, tmp_path, head=turned).stdout == expected
    assert predicted(files, tmp_path, head="id,joined,member,country,year").stdout == expected


def test_new_values_and_gaps_are_counted(files, tmp_path):
    def change(at, row):
        if at == 5:
            row.update(country="US", year="", member="")

    notes = predicted(files, tmp_path, change=change).stderr
    assert "empty cells, filled as in training" in notes
    assert "values that training did not have, taken as none: country 1" in notes


def test_what_cannot_be_encoded_is_refused_by_column_and_line(files, tmp_path):
    def refused(column, cell):
        def change(at, row):
            if at == 5:
                row[column] = cell

        people = table(files, tmp_path / "people.csv", change=change)
        return fails("predict", files.folder / "run", "--edges", files.edges, "--features", people)

    for column, cell in (("year", "old"), ("member", "perhaps"), ("joined", "soon")):
        message = refused(column, cell)
        assert f"line 7, column {column!r} = {cell!r} is not" in message


def test_rows_of_new_nodes_are_encoded_as_in_training_whatever_the_place_of_their_ids(
    files, tmp_path
):
    edges, people = tmp_path / "new.csv", tmp_path / "new_people.csv"
    edges.write_text(f"zoe,{files.names[0]}\nmax,zoe\n")
    people.write_text(
        "country,member,joined,year,id,extra\nDE,true,2020-01-03,1960,zoe,1\n"
        "US,false,2020-01-04,,max,2\n"
    )
    run = files.folder / "run"
    found = ok("predict", run, "--new-edges", edges, "--new-features", people)
    assert [line.split(",")[0] for line in found.stdout.split()] == ["node", "max", "zoe"]
    assert "columns that training did not have are not used: 'extra'" in found.stderr
    people.write_text(people.read_text().replace("id,", "name,"))
    message = fails("predict", run, "--new-edges", edges, "--new-features", people)
    assert "name" in message
    again = ok(
        "predict", run, "--new-edges", edges, "--new-features", people, "--id-column", "name"
    )
    assert again.stdout == found.stdout


def test_inspect_names_the_columns_with_their_kinds(files):
    line = "year (number), country (category), member (boolean), joined (date), bio (text)"
    for place in ("run", "run/graph"):
        assert line in " ".join(ok("inspect", files.folder / place).stdout.split())
