"""Scores on public datasets: a search by validation score, then ten seeds of the best settings.

`python -m docs.make.search --data cora chameleon --space extended --seconds 300 --jobs 12`
searches, trains, and writes a folder per dataset: the search, `runs.jsonl` with a line per seed,
and `recipe.yaml`, the settings with what was measured. The same command continues an incomplete
run, and stops in good order when its --budget is spent. The table has the paper's figures beside.
"""

import argparse
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.make import lines_of, markdown

from dhilgt.benchmark.experiments.paper import published_figures
from dhilgt.benchmark.lines import script_command, signed_line
from dhilgt.benchmark.running.recipe import OURS
from dhilgt.benchmark.show.tables import score_text
from dhilgt.cli import train_output
from dhilgt.cli.inputs import Inputs, InputSource
from dhilgt.cli.train import parse_seeds
from dhilgt.cli.tune import parse_fixed
from dhilgt.datasets import info
from dhilgt.settings.recipes import recipe, render
from dhilgt.settings.settings import Settings
from dhilgt.tune.results import SearchState, look, write_best
from dhilgt.tune.space import read_space
from dhilgt.tune.study import Search, run_search
from dhilgt.utils.workers import Workers

RUNS = "runs.jsonl"
RECIPE = "recipe.yaml"
_RESERVE = 1.5  # times what ten seeds should take is kept free for them
_START_SECONDS = 20.0  # of a process with torch and a GPU


def main() -> None:
    """Search and train on each dataset, then print the table."""
    options = _options()
    end = time.time() + options.budget
    for name in options.data:
        if time.time() > end:
            print(f"the budget of {options.budget:.0f} s is spent; the same command goes on")
            break
        print(f"== {name}", file=sys.stderr, flush=True)
        _one(name, options, end)
    _table(options)


def published_scores() -> dict[str, str]:
    """Return published mean and standard deviation of DHIL-GT by dataset, per cent."""
    figures = {name: rows[OURS] for name, rows in published_figures()["figures"].items()}
    return {name: f"{row['score']:.2f} ± {row['sd']:.2f}" for name, row in figures.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    small = ["chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed", "physics"]
    parser.add_argument("--data", nargs="+", default=small)
    parser.add_argument("--space", default="extended", help="paper, extended, a file, or none")
    parser.add_argument("--seconds", type=float, default=300, help="of search, per dataset")
    parser.add_argument("--trials", type=int, help="the most per dataset")
    parser.add_argument("--jobs", type=int, default=8, help="processes on the one GPU")
    parser.add_argument("--budget", type=float, default=3600, help="seconds of this call in all")
    parser.add_argument("--search-seeds", default="0-2")
    parser.add_argument("--seeds", default="0-9", help="of the runs after the search")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="fixed settings")
    parser.add_argument("--recipe", default="paper", help="settings to begin with")
    parser.add_argument("--root", help="folder of the datasets")
    parser.add_argument("--results", type=Path, default=Path("bench-results/search"))
    return parser.parse_args()


def _one(name: str, options: argparse.Namespace, end: float) -> None:
    folder = options.results / name
    fixed = parse_fixed(options.set)
    base = Settings.from_dict(recipe(options.recipe, name) | fixed)
    inputs = Inputs(dataset=info(name).name, root=options.root)
    source = InputSource(inputs)
    seeds = parse_seeds(options.seeds)
    command = shlex.join(["python", "-m", "docs.make.search", *sys.argv[1:]])
    if options.space == "none":
        runs = _seeds(source, base, folder, seeds, options.jobs, end)
        if runs:
            about = f"{name} by the recipe {options.recipe!r}, not searched."
            _write_recipe(folder, name, base, runs, about, command, [])
        return
    search = Search(
        source=source,
        base=base,
        space=read_space(options.space).without(fixed),
        folder=folder / "search",
        seeds=tuple(parse_seeds(options.search_seeds)),
        trials=options.trials,
        budget=options.seconds,
        # The folder of the files is no part of the search.
        about={"dataset": info(name).name},
    )
    last_printed = 0.0

    def watch() -> None:
        nonlocal last_printed
        if time.time() - last_printed > 20:
            last_printed = time.time()
            _progress(look(search))

    finished = run_search(
        search, jobs=options.jobs, watch=watch, until=end - _reserve(search, len(seeds), options)
    )
    state = look(search)
    _progress(state)
    if state.settings is None or state.best is None:
        return
    write_best(search, state, command)
    if not finished:
        print(f"{name}: the search was paused by the budget", file=sys.stderr)
    runs = _seeds(source, state.settings, folder, seeds, options.jobs, end)
    of_search = {
        "trials": len(state.trials), "seconds": round(state.seconds), "space": options.space,
        "seeds": list(search.seeds), "score": state.best["score"], "processes": options.jobs,
    }  # fmt: skip
    runs = [run | {"search": of_search} for run in runs]
    _write_lines(folder / RUNS, runs)
    searched = [
        ("search", f"{len(state.trials)} trials of the space {options.space!r} in "
         f"{state.seconds:.0f} s by {options.jobs} processes"),
        ("search score", f"{state.best['score']:.4f} on the validation nodes of seeds "
         f"{options.search_seeds}"),
    ]  # fmt: skip
    about = f"{name}: the best settings found by validation score."
    if runs:
        _write_recipe(folder, name, state.settings, runs, about, command, searched)


def _reserve(search: Search, count: int, options: argparse.Namespace) -> float:
    """Estimate the seconds of the runs after the search, from the trials so far."""
    if not (search.folder / "search.journal").exists():
        return _START_SECONDS
    best = look(search).best
    if best is None:
        return _START_SECONDS
    one = float(best["seconds"]) / len(search.seeds)
    rounds = -(-count // min(options.jobs, count))
    return min(_START_SECONDS + _RESERVE * one * rounds, options.budget / 2)


def _progress(state: SearchState) -> None:
    best = "none yet" if state.best is None else f"{state.best['score']:.4f} {state.best['chosen']}"
    ended = f"{state.count('complete')} ended, {state.count('pruned')} pruned"
    print(f"  {state.seconds:.0f} s: {ended}, {state.count('failed')} failed; best {best}",
          file=sys.stderr, flush=True)  # fmt: skip


# ---- the runs after the search -----------------------------------------------------------------


def _seeds(
    source: InputSource, settings: Settings, folder: Path, seeds: list[int], jobs: int, end: float
) -> list[dict[str, Any]]:
    """Return a line per seed; runs with the same settings are not repeated."""
    path = folder / RUNS
    folder.mkdir(parents=True, exist_ok=True)
    known = {one["seed"]: one for one in lines_of(path) if _same(one["config"], settings)}
    waiting = [seed for seed in seeds if seed not in known]
    with Workers(max(1, min(jobs, len(waiting)))) as workers:

        def start() -> None:
            while waiting and workers.running < jobs and time.time() < end:
                seed = waiting.pop(0)
                workers.start(str(seed), run_seed, source, settings, seed)

        start()
        for seed, line in workers.results(start):
            known[int(seed)] = line
            _write_lines(path, [known[one] for one in sorted(known)])
    return [known[seed] for seed in seeds if seed in known]


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    signed = (signed_line({"command": script_command(), **line}) for line in lines)
    path.write_bytes(b"".join(line + b"\n" for line in signed))


def _same(config: Mapping[str, Any], settings: Settings) -> bool:
    mine = settings.to_dict()
    return all(config.get(key) == value for key, value in mine.items() if key != "seed")


def run_seed(source: InputSource, settings: Settings, seed: int) -> dict[str, Any]:
    """Train with one seed, in a process of its own, and return the line of the run."""
    import dhilgt
    from dhilgt.benchmark.running.cell import environment

    chosen = Settings.from_dict(settings.to_dict() | {"seed": seed})
    start = time.perf_counter()
    clf = dhilgt.NodeClassifier(**chosen.to_dict(), recipe="paper", progress=False).fit(
        source(seed)
    )
    line = train_output.facts(
        clf, Path(), set(), time.perf_counter() - start, {"dataset": source.inputs.dataset}
    )
    device = next(clf.model_.parameters()).device
    machine = environment(str(device))
    machine.pop("release", None)  # the kernel does not affect scores
    removed = ("path", "files", "reused_from_cache", "classes_without_training_nodes")
    kept = {key: value for key, value in line.items() if key not in removed}
    return kept | {"environment": machine}


def _write_recipe(
    folder: Path,
    name: str,
    settings: Settings,
    runs: list[dict[str, Any]],
    about: str,
    command: str,
    searched: list[tuple[str, str]],
) -> None:
    text = render(name, settings, runs, about=about, command=command, searched=searched)
    (folder / RECIPE).write_text(text, encoding="utf-8")


# ---- the table ---------------------------------------------------------------------------------


def _table(options: argparse.Namespace) -> None:
    rows = [("dataset", "metric", "seeds", "val %", "test %", "paper %", "seconds a run")]
    for name in options.data:
        runs = lines_of(options.results / name / RUNS)
        if not runs:
            continue
        metric = runs[0]["metric"]
        parts = ("val", "test")
        scores = [score_text([run["scores"][part][metric] for run in runs]) for part in parts]
        seconds = sum(run["seconds"] for run in runs) / len(runs)
        paper = published_scores().get(name, "")
        rows.append((name, metric, str(len(runs)), *scores, paper, f"{seconds:.1f}"))
    text = markdown([rows[0], ["---"] * len(rows[0]), *rows[1:]])
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "table.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
