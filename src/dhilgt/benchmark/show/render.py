"""Tables as Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from dhilgt.benchmark.show.tables import Table, TableEntry
from dhilgt.errors import ConfigError

_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "×": r"$\times$",
    "*": r"$^\ast$",
    "–": "--",
}
_STYLE = """\
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; margin: 1em 0; white-space: nowrap; }
th, td { padding: .2em .6em; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tbody th { font-weight: normal; }
th[colspan] { text-align: center; border-left: 1px solid #ddd; }
tr.published { color: #666; font-style: italic; }
div { overflow-x: auto; }
ul { color: #444; max-width: 60em; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; }
  th, td { border-color: #444; }
  tr.published { color: #999; }
  ul { color: #bbb; }
}"""


def render(tables: Sequence[Table], form: str) -> str:
    """Return tables as text that ends with a line end.

    Args:
        tables: From `tables.tables`.
        form: "md", "latex" (needs the package booktabs) or "html", a page of its own.

    Raises:
        ConfigError: If there is no such form.

    Example:
        >>> one = Table(("cora",), (("Acc",),), ())
        >>> print(render([one], "md"), end="")
        | | cora<br>Acc |
        |---|---:|
    """
    if form not in FORMS:
        raise ConfigError(f"format {form!r}; choose {', '.join(FORMS)}")
    return FORMS[form](tables)


# ---- Markdown ----------------------------------------------------------------------------------


def _markdown(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        heads = [
            f"{data}<br>{column}"
            for data, columns in zip(table.data, table.columns, strict=True)
            for column in columns
        ]
        lines = [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
        for row in table.rows:
            label = f"*{row.label}*" if row.published else row.label
            entries = [_markdown_entry(e) for entries in row.entries for e in entries]
            lines.append(f"| {label} | {' | '.join(entries)} |")
        lines += ["", *(f"- {_markdown_text(note)}" for note in table.notes)] if table.notes else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _markdown_entry(entry: TableEntry) -> str:
    text = _markdown_text(entry.text)
    return {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(entry.mark, text)


def _markdown_text(text: str) -> str:
    text = html.escape(text, quote=False)
    return re.sub(r"([*_|`\[\]\\])", r"\\\1", text)


# ---- LaTeX -------------------------------------------------------------------------------------


def _latex(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        spec = "|".join("r" * len(columns) for columns in table.columns)
        heads = [
            rf"\multicolumn{{{len(columns)}}}{{c}}{{{_latex_text(data)}}}"
            for data, columns in zip(table.data, table.columns, strict=True)
        ]
        names = [_latex_text(name) for columns in table.columns for name in columns]
        lines = [
            rf"\begin{{tabular}}{{l|{spec}}}",
            r"\toprule",
            rf"& {' & '.join(heads)} \\",
            rf"& {' & '.join(names)} \\",
            r"\midrule",
        ]
        for row in table.rows:
            label = _latex_text(row.label)
            label = rf"\textit{{{label}}}" if row.published else label
            entries = [_latex_entry(e) for entries in row.entries for e in entries]
            lines.append(rf"{label} & {' & '.join(entries)} \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        if table.notes:
            notes = [rf"  \item {_latex_text(note)}" for note in table.notes]
            lines += [r"\begin{itemize}", *notes, r"\end{itemize}"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _latex_entry(entry: TableEntry) -> str:
    text = _latex_text(entry.text)
    marked = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}
    return marked.get(entry.mark, text)


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


# ---- HTML --------------------------------------------------------------------------------------


def _html(tables: Sequence[Table]) -> str:
    body = "\n".join(html_table(table) for table in tables)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<title>Comparison</title>\n"
        f"<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def html_table(table: Table) -> str:
    """Return one table and its notes as a part of a page."""
    heads = "".join(
        f'<th colspan="{len(columns)}" scope="colgroup">{html.escape(data)}</th>'
        for data, columns in zip(table.data, table.columns, strict=True)
    )
    names = "".join(
        f'<th scope="col">{html.escape(n)}</th>' for columns in table.columns for n in columns
    )
    lines = [
        "<div><table>",
        f"<thead><tr><td></td>{heads}</tr>",
        f"<tr><td></td>{names}</tr></thead>",
        "<tbody>",
    ]
    for row in table.rows:
        entries = "".join(_html_entry(e) for entries in row.entries for e in entries)
        kind = ' class="published"' if row.published else ""
        lines.append(f'<tr{kind}><th scope="row">{html.escape(row.label)}</th>{entries}</tr>')
    lines.append("</tbody></table></div>")
    if table.notes:
        notes = "".join(f"<li>{html.escape(note)}</li>\n" for note in table.notes)
        lines.append(f"<ul>\n{notes}</ul>")
    return "\n".join(lines)


def _html_entry(entry: TableEntry) -> str:
    text = html.escape(entry.text)
    marked = {"best": f"<b>{text}</b>", "second": f"<u>{text}</u>"}
    return f"<td>{marked.get(entry.mark, text)}</td>"


FORMS = {"md": _markdown, "latex": _latex, "html": _html}
