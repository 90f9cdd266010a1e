"""The map of packages in CONTRIBUTING.md: one row per package, in the order of dependencies.

`python -m docs.make.package_map` writes it. The rows come from the packages themselves: the order
from the import contract in pyproject.toml, the sentence from the package's docstring.
"""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- packages: begin -->\n", "<!-- packages: end -->\n"


def packages() -> list[str]:
    """Return the packages of dhilgt, the one that imports from no other first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    names = [layer.removeprefix("dhilgt.") for layer in reversed(contract["layers"])]
    return [name for name in names if name != "errors"]


def package_table() -> str:
    """Return the map as a Markdown table."""
    rows = ["| package | what it holds | modules and packages |", "|---|---|---|"]
    for name in packages():
        folder = ROOT / "src" / "dhilgt" / name
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert text, f"{folder}/__init__.py has no docstring"
        modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        modules += [f"{path.parent.name}/" for path in folder.glob("*/__init__.py")]
        listed = ", ".join(f"`{module}`" for module in sorted(modules))
        rows.append(f"| `{name}/` | {text.splitlines()[0]} | {listed} |")
    return "\n".join(rows) + "\n"


def page_with_table(page: str) -> str:
    """Return the text of CONTRIBUTING.md with the map made anew.

    Args:
        page: The text as it is.
    """
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{package_table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
