"""All datasets by name: the graphs of OGB and the stand-ins here, the others from their modules."""

from dhilgt.datasets.entries_classic import (
    PHYSICS,
    PLANETOID,
    SHCHUR_MORE,
    YANDEX_MORE,
    YANDEX_PAPER,
)
from dhilgt.datasets.entries_social import FACEBOOK_MORE, GENIUS, PENN94, TWITCH
from dhilgt.datasets.registry import Archive, DatasetInfo, Facts, RawFile

_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_OGB_TERMS = "ODC-BY"
_OGB_CITATION = (
    "Hu et al.: Open Graph Benchmark, NeurIPS 2020; Wang et al.: Microsoft Academic Graph"
)

ARXIV = DatasetInfo(
    name="ogbn-arxiv",
    about="computer science papers and their citations, mean word vectors; the subject area",
    reader="ogb",
    facts=Facts(169_343, 2_315_598, 128, 40, 0.654),
    files=(
        RawFile(
            "raw/edge.csv.gz",
            sha256="47629e986116407d27eff4c9d2e923f06bf5da5c85cbae93b660f530bc9355df",
            repacked=("33904318401bf6876e49893b52ae87e73467ae697e94332021c3a40e0304fdab",),
            num_bytes=5_033_515,
        ),
        RawFile(
            "raw/node-label.csv.gz",
            sha256="b06e7cf75d909de66ce49bc4188a6dc525224f85dd6dcb36137de3d9321830d1",
            num_bytes=123_505,
        ),
        RawFile(
            "raw/node-feat.csv.gz",
            sha256="60a844c7aff2f129335d34da2f6b9271bd1cac03aff8c70c229e6f0d13624718",
            num_bytes=76_357_181,
            needed_for="features",
        ),
        RawFile(
            "split/time/train.csv.gz",
            sha256="84983391900af45194e5db8d977ec9e01d4eda96e20328f3d7575fdd45c6797c",
            num_bytes=211_044,
            needed_for="official",
        ),
        RawFile(
            "split/time/valid.csv.gz",
            sha256="ebe6cdcd77c75eedbce2064a05a49bc28e2c4a631f49d66b9e9ff317eef993eb",
            num_bytes=66_916,
            needed_for="official",
        ),
        RawFile(
            "split/time/test.csv.gz",
            sha256="588fb66ce57bcaef51ac0235f0a49a056370ac31fc27c8ebf556d3f5cdd02545",
            num_bytes=113_234,
            needed_for="official",
        ),
    ),
    folders=("ogbn_arxiv", "ogbn-arxiv", "arxiv"),
    paper_split="official",
    official_splits=1,
    in_paper=True,
    source="Open Graph Benchmark",
    licence=_OGB_TERMS,
    citation=_OGB_CITATION,
    archive=Archive(f"{_OGB}/arxiv.zip", 1, "", 1 << 30),
    note="a list of edges in another order is accepted as well as the published one; the split "
    "is by year",
)

MAG = DatasetInfo(
    name="ogbn-mag",
    about="the papers of ogbn-mag and their citations, mean word vectors; the venue",
    reader="ogb",
    facts=Facts(736_389, 10_792_672, 128, 349),
    files=(
        RawFile("raw/relations/paper___cites___paper/edge.csv.gz"),
        RawFile("raw/node-label/paper/node-label.csv.gz"),
        RawFile("raw/node-feat/paper/node-feat.csv.gz", needed_for="features"),
        *(
            RawFile(f"split/time/paper/{part}.csv.gz", needed_for="official")
            for part in ("train", "valid", "test")
        ),
    ),
    folders=("ogbn_mag", "ogbn-mag", "mag"),
    paper_split="official",
    official_splits=1,
    in_paper=True,
    source="Open Graph Benchmark",
    licence=_OGB_TERMS,
    citation=_OGB_CITATION,
    archive=Archive(f"{_OGB}/mag.zip", 1, "", 4 << 30),
    note="papers and citations only; authors, institutions and topics are left out",
)

# ---- stand-ins ---------------------------------------------------------------------------------


def _standin(
    name: str, real: DatasetInfo, paper_split: str, homophily: float, note: str
) -> DatasetInfo:
    size = real.facts
    return DatasetInfo(
        name=name,
        about=f"a random graph of the size and shape of {real.name}",
        reader="standin",
        facts=Facts(size.nodes, size.edges, size.features, size.classes, homophily),
        metrics=real.metrics,
        paper_split=paper_split,
        source="made here, from a seed",
        licence="none needed",
        citation="none",
        standin_for=real.name,
        note=f"generated stand-in: its scores say nothing about {real.name}; {note}",
    )


_STANDINS = (
    _standin("penn94-like", PENN94, "60/20/20", 0.534, "six one-hot groups of features"),
    _standin("genius-like", GENIUS, "60/20/20", 0.618, "four in five nodes have class 0"),
    _standin("twitch-like", TWITCH, "60/20/20", 0.545, "two classes of nearly equal size"),
    _standin(
        "mag-like",
        MAG,
        "85.5/8.8/5.7",
        0.3,
        "classes of uneven size; the homophily is a guess, none is published",
    ),
    DatasetInfo(
        name="arxiv-like",
        about="the real graph, classes and split of ogbn-arxiv with generated features",
        reader="standin",
        facts=ARXIV.facts,
        files=tuple(file for file in ARXIV.files if file.needed_for != "features"),
        folders=ARXIV.folders,
        paper_split="official",
        official_splits=1,
        source=ARXIV.source,
        licence=ARXIV.licence,
        citation=ARXIV.citation,
        archive=ARXIV.archive,
        standin_for="ogbn-arxiv",
        note="generated stand-in: features are drawn around a centre per class, so its scores "
        "say nothing about ogbn-arxiv",
    ),
)

_PAPER = (*YANDEX_PAPER, PENN94, GENIUS, TWITCH, *PLANETOID, PHYSICS, ARXIV, MAG)
CATALOGUE: dict[str, DatasetInfo] = {
    entry.name: entry for entry in (*_PAPER, *YANDEX_MORE, *SHCHUR_MORE, *FACEBOOK_MORE, *_STANDINS)
}
