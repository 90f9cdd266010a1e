"""``--help`` with the options in common use, ``--help-all`` with every option under a heading."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dhilgt.utils.synonyms import setting_meant

NAME = "help_all"
_ALL = "dhilgt.help_all"
_HEADING = "Options"


def _print_all(context: typer.Context, wanted: bool | None) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


HELP_ALL = Annotated[
    bool | None,
    typer.Option(
        "--help-all", is_eager=True, callback=_print_all, help="Show every option and exit."
    ),
]


class Command(TyperCommand):
    """A command whose ``--help`` is short if it has a ``--help-all``.

    The short help shows the options in the attribute `common_options` of the function, the long one
    shows every option under its `rich_help_panel`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; the message about an unknown option names the one that was meant."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            meant = setting_meant(getattr(error, "option_name", None) or "")
            option = f"--{meant}".replace("_", "-")
            if meant is not None and any(option in one.opts for one in self.params):
                error.possibilities = [option]  # type: ignore[attr-defined]
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in sections."""
        parameters = self.get_params(ctx)
        if NAME not in {one.name for one in parameters}:
            super().format_options(ctx, formatter)
            return
        everything = ctx.meta.get(_ALL, False)
        common: frozenset[str] = getattr(self.callback, "common_options", frozenset())
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in parameters:
            record = one.get_help_record(ctx)
            if record is not None and (everything or one.name in common):
                heading = getattr(one, "rich_help_panel", None) if everything else None
                sections.setdefault(heading or _HEADING, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
