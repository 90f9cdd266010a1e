"""Entries of the social networks of LINKX: Facebook100, genius and twitch-gamer.

Hashes and sizes are those of the files as published, unless an entry says otherwise.
"""

from dhilgt.datasets.registry import Archive, DatasetInfo, Facts, RawFile

_GITHUB = "https://github.com"
_FACEBOOK = (
    f"{_GITHUB}/CUAI/Non-Homophily-Benchmarks/raw/af14a88470d30b1dadd3803d911dfc1064bcf172/data"
)
_LINKX = (
    f"{_GITHUB}/CUAI/Non-Homophily-Large-Scale/raw/82f8f05c5c3ec16bd5b505cc7ad62ab5e09051e6/data"
)


def _facebook(
    name: str,
    school: str,
    facts: Facts,
    *,
    sha256: str | None = None,
    num_bytes: int | None = None,
    git_blob: str | None = None,
    splits: RawFile | None = None,
    in_paper: bool = False,
) -> DatasetInfo:
    url = f"{_FACEBOOK}/facebook100/{school.replace(' ', '%20')}.mat"
    graph = RawFile(f"raw/{school}.mat", url, sha256, num_bytes, git_blob)
    return DatasetInfo(
        name=name,
        about="friendships at one school in 2005, what people said of themselves; gender",
        reader="facebook100",
        facts=facts,
        files=(graph,) if splits is None else (graph, splits),
        folders=(name,),
        official_splits=0 if splits is None else 5,
        in_paper=in_paper,
        source="CUAI/Non-Homophily-Benchmarks",
        licence="MIT (the repository)",
        citation="Traud, Mucha, Porter: Social Structure of Facebook Networks, 2012; Lim et al.: "
        "Large Scale Learning on Non-Homophilous Graphs, NeurIPS 2021",
        note="people who gave no gender are unlabelled",
    )


PENN94 = _facebook(
    "penn94",
    "Penn94",
    Facts(41_554, 2_724_458, 4_814, 2),
    git_blob="10f95de35049269ee41778c4aeb8e71bc98427bb",
    splits=RawFile(
        "raw/fb100-Penn94-splits.npy",
        f"{_FACEBOOK}/splits/fb100-Penn94-splits.npy",
        "88a1060358482d8e25b978ab59c4ff71771388cd5ffac3dd775a3cd9dc85b032",
        581_866,
        needed_for="official",
    ),
    in_paper=True,
)
FACEBOOK_MORE = (
    _facebook(
        "reed98",
        "Reed98",
        Facts(962, 37_624, 745, 2, 0.522),
        sha256="d12ec74dc8c6e237385975b976c3709555a83629a1260be693fb688e3446070e",
        num_bytes=70_347,
    ),
    _facebook(
        "amherst41",
        "Amherst41",
        Facts(2_235, 181_908, 1_193, 2, 0.531),
        sha256="3108e4b2edb01be05c5a61147583a40e61012820fff7eebe621dd26018caaf00",
        num_bytes=333_541,
    ),
    _facebook("johnshopkins55", "Johns Hopkins55", Facts(5_180, 373_172, 2_406, 2)),
    _facebook(
        "cornell5",
        "Cornell5",
        Facts(18_660, 1_581_554, 4_735, 2, 0.546),
        sha256="d9ff76ae34e855cb77b0779a3a320f7f73f848901cb13352e2734c17804c4aec",
        num_bytes=3_543_757,
    ),
)

GENIUS = DatasetInfo(
    name="genius",
    about="users of a lyrics site who follow each other; whose accounts were marked",
    reader="genius",
    facts=Facts(421_961, 1_845_736, 12, 2, 0.618),
    files=(
        RawFile(
            "raw/genius.mat",
            f"{_LINKX}/genius.mat",
            git_blob="a2b6744d8833ec15ab5c95cad77fc08ab815a8ff",
        ),
        RawFile(
            "raw/genius-splits.npy",
            f"{_LINKX}/splits/genius-splits.npy",
            git_blob="b552ffd515ce53c52426aedb21c81f6c564f5d32",
            needed_for="official",
        ),
    ),
    folders=("genius",),
    metrics=("accuracy", "roc_auc"),
    official_splits=5,
    in_paper=True,
    source="CUAI/Non-Homophily-Large-Scale",
    licence="not stated",
    citation="Lim, Benson: Expertise and Dynamics within Crowdsourced Musical Knowledge Curation, "
    "ICWSM 2021; Lim et al., NeurIPS 2021",
    note="published figures are accuracies in some papers and ROC AUC in others: log both",
)
TWITCH = DatasetInfo(
    name="twitch-gamer",
    about="streamers who follow each other; who streams content for adults",
    reader="twitch",
    facts=Facts(168_114, 13_595_114, 7, 2, 0.545),
    files=(
        RawFile(
            "raw/large_twitch_edges.csv",
            sha256="6b8320de74eec57857f99ca81fa515e40836bd531d4cab82a7720d26587aa4b4",
            num_bytes=86_153_930,
        ),
        RawFile(
            "raw/large_twitch_features.csv",
            git_blob="12099cc62b635a4cea3d0be23cdcef197de21c93",
        ),
        RawFile(
            "raw/twitch-gamer-splits.npy",
            f"{_LINKX}/splits/twitch-gamer-splits.npy",
            "1983107bf72a28f3933d050489434798030967d571be10a8ace1474ba2c5665d",
            3_548_331,
            needed_for="official",
        ),
    ),
    folders=("twitch-gamer", "twitch_gamer", "twitch-gamers"),
    official_splits=5,
    in_paper=True,
    source="the SNAP collection; splits from CUAI/Non-Homophily-Large-Scale",
    licence="not stated",
    citation="Rozemberczki, Sarkar: Twitch Gamers, 2021; Lim et al., NeurIPS 2021",
    archive=Archive("https://snap.stanford.edu/data/twitch_gamers.zip", 0, "raw", 1 << 30),
    note="features are standardised, as in the benchmark that introduced the task",
)
