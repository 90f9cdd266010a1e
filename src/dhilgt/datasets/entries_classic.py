"""Entries of the datasets of three papers: Planetoid, the Yandex suite and gnn-benchmark.

Hashes and sizes are those of the files as published, unless an entry says otherwise.
"""

from dhilgt.datasets.registry import DatasetInfo, Facts, RawFile

_GITHUB = "https://github.com"
_PLANETOID = f"{_GITHUB}/kimiyoung/planetoid/raw/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data"
_YANDEX = (
    f"{_GITHUB}/yandex-research/heterophilous-graphs/raw/"
    "a431395582e929d88271309716bea4fe24ce6318/data"
)
_SHCHUR = f"{_GITHUB}/shchur/gnn-benchmark/raw/master/data/npz"

# ---- Planetoid ---------------------------------------------------------------------------------

_PLANETOID_FILES = {
    "cora": (
        ("x", 22_119, "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab"),
        ("y", 4_054, "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1"),
        ("tx", 148_025, "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a"),
        ("ty", 28_135, "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad"),
        ("allx", 257_305, "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543"),
        ("ally", 47_959, "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71"),
        ("graph", 59_847, "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d"),
        ("test.index", 5_000, "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875"),
    ),
    "citeseer": (
        ("x", 31_087, "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6"),
        ("y", 3_014, "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924"),
        ("tx", 260_321, "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21"),
        ("ty", 24_135, "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce"),
        ("allx", 595_021, "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668"),
        ("ally", 55_623, "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95"),
        ("graph", 61_987, "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7"),
        ("test.index", 5_000, "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4"),
    ),
    "pubmed": (
        ("x", 23_172, "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33"),
        ("y", 854, "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3"),
        ("tx", 405_505, "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d"),
        ("ty", 12_135, "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd"),
        ("allx", 7_578_385, "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e"),
        ("ally", 224_739, "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e"),
        ("graph", 471_808, "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9"),
        ("test.index", 6_000, "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5"),
    ),
}


def _planetoid(name: str, facts: Facts, note: str = "") -> DatasetInfo:
    return DatasetInfo(
        name=name,
        about="papers and their citations, bags of words, the field of each paper",
        reader="planetoid",
        facts=facts,
        files=tuple(
            RawFile(f"raw/ind.{name}.{end}", f"{_PLANETOID}/ind.{name}.{end}", sha256, num_bytes)
            for end, num_bytes, sha256 in _PLANETOID_FILES[name]
        ),
        folders=(name,),
        official_splits=1,
        in_paper=True,
        source="kimiyoung/planetoid",
        licence="MIT (the repository)",
        citation="Yang, Cohen, Salakhutdinov: Revisiting Semi-Supervised Learning with Graph "
        "Embeddings, ICML 2016; Sen et al.: Collective Classification in Network Data, 2008",
        note=note,
    )


PLANETOID = (
    _planetoid("cora", Facts(2_708, 10_556, 1_433, 7, 0.810)),
    _planetoid(
        "citeseer",
        Facts(3_327, 9_104, 3_703, 6, 0.738),
        note="15 nodes have neither features nor a class; 48 have no edge: drop_isolated=True "
        "leaves these out, as the paper did (3,279 nodes)",
    ),
    _planetoid("pubmed", Facts(19_717, 88_648, 500, 3, 0.802)),
)

# ---- Yandex ------------------------------------------------------------------------------------


def _yandex(
    name: str,
    about: str,
    facts: Facts,
    *,
    file: str | None = None,
    sha256: str | None = None,
    num_bytes: int | None = None,
    folders: tuple[str, ...] = (),
    auc: bool = False,
    directed: bool = False,
    in_paper: bool = False,
    note: str = "",
) -> DatasetInfo:
    file = file or f"{name.replace('-', '_')}.npz"
    return DatasetInfo(
        name=name,
        about=about,
        reader="yandex",
        facts=facts,
        files=(RawFile(f"raw/{file}", f"{_YANDEX}/{file}", sha256, num_bytes),),
        folders=folders or (name, name.replace("-", "_")),
        metrics=("roc_auc",) if auc else ("accuracy",),
        official_splits=10,
        directed=directed,
        in_paper=in_paper,
        source="yandex-research/heterophilous-graphs",
        licence="MIT",
        citation="Platonov et al.: A Critical Look at the Evaluation of GNNs under Heterophily, "
        "ICLR 2023",
        note=note,
    )


_WIKIPEDIA = "Wikipedia pages and their links, words as features, traffic in five classes"
_FILTERED = "the filtered version: nodes that were there twice are left out"
YANDEX_PAPER = (
    _yandex(
        "chameleon",
        _WIKIPEDIA,
        Facts(890, 17_708, 2_325, 5, 0.236),
        file="chameleon_filtered.npz",
        sha256="bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
        num_bytes=58_924,
        in_paper=True,
        note=_FILTERED,
    ),
    _yandex(
        "squirrel",
        _WIKIPEDIA,
        Facts(2_223, 93_996, 2_089, 5, 0.207),
        file="squirrel_filtered.npz",
        sha256="f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7",
        num_bytes=208_215,
        in_paper=True,
        note=_FILTERED,
    ),
    _yandex(
        "tolokers",
        "workers of a crowdsourcing platform who shared tasks; who was banned",
        Facts(11_758, 1_038_000, 10, 2, 0.595),
        sha256="dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667",
        num_bytes=1_329_769,
        auc=True,
        in_paper=True,
    ),
)
YANDEX_MORE = (
    _yandex(
        "chameleon-directed",
        _WIKIPEDIA,
        Facts(890, 17_708, 2_325, 5, 0.236),
        file="chameleon_filtered_directed.npz",
        sha256="5a2d40701407188f1661d37a326484b49cc15251e0dedaa7bd380873dac80f21",
        num_bytes=69_275,
        folders=("chameleon", "chameleon-directed"),
        directed=True,
        note=f"{_FILTERED}; links keep their direction",
    ),
    _yandex(
        "squirrel-directed",
        _WIKIPEDIA,
        Facts(2_223, 93_996, 2_089, 5, 0.207),
        file="squirrel_filtered_directed.npz",
        sha256="0526e53252f0b052124f7390829c32e923d432acaf64206191a1144a07b39620",
        num_bytes=249_855,
        folders=("squirrel", "squirrel-directed"),
        directed=True,
        note=f"{_FILTERED}; links keep their direction",
    ),
    _yandex(
        "actor",
        "actors who appear on the same Wikipedia pages, words as features",
        Facts(7_600, 53_318, 932, 5, 0.217),
        sha256="c350eef06b2c2a9bf8218be2b57cac6d4003d0922eb597a039e9123f75817816",
        num_bytes=252_956,
    ),
    _yandex(
        "minesweeper",
        "a grid of 100 by 100 cells; which hide a mine",
        Facts(10_000, 78_804, 7, 2),
        auc=True,
    ),
    _yandex(
        "roman-empire",
        "the words of one article, joined by order and by grammar; the role of each",
        Facts(22_662, 65_854, 300, 18),
    ),
    _yandex(
        "amazon-ratings",
        "products often bought together; their rating in five classes",
        Facts(24_492, 186_100, 300, 5),
    ),
    _yandex(
        "questions",
        "users of a question site who answered each other; who stayed active",
        Facts(48_921, 307_080, 301, 2),
        auc=True,
    ),
)

# ---- gnn-benchmark -----------------------------------------------------------------------------


def _shchur(
    name: str,
    about: str,
    file: str,
    facts: Facts,
    *,
    sha256: str | None = None,
    num_bytes: int | None = None,
    repacked: tuple[str, ...] = (),
    folders: tuple[str, ...] = (),
    in_paper: bool = False,
    note: str = "",
) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        about=about,
        reader="gnn_benchmark",
        facts=facts,
        files=(RawFile(f"raw/{file}", f"{_SHCHUR}/{file}", sha256, num_bytes, repacked=repacked),),
        folders=(name, *folders),
        in_paper=in_paper,
        source="shchur/gnn-benchmark",
        licence="MIT",
        citation="Shchur et al.: Pitfalls of Graph Neural Network Evaluation, 2018",
        note=note,
    )


_COAUTHORS = "authors and whom they wrote with, keywords of their papers, field of each author"
_BOUGHT = "products often bought together, words of reviews, category of each product"
_REPACKED = "a copy repacked with the same values is accepted as well as the published file"
PHYSICS = _shchur(
    "physics",
    _COAUTHORS,
    "ms_academic_phy.npz",
    Facts(34_493, 495_924, 8_415, 5, 0.931),
    sha256="e4d68468eba5fb8f6b280ffd406bd53e6e4295ba1dd2967d6fe99b978e4b3375",
    repacked=("dfe0764baeb3d7ee9162a6774d458a885f68228880d16ca25c5d17732319ed31",),
    num_bytes=16_374_005,
    folders=("coauthor-physics", "coauthor_physics"),
    in_paper=True,
    note=_REPACKED,
)
SHCHUR_MORE = (
    _shchur(
        "photo",
        _BOUGHT,
        "amazon_electronics_photo.npz",
        Facts(7_650, 238_162, 745, 8, 0.827),
        repacked=("59c28ed1fd27ba21d425e31b700bf3abca6fd777f8075dd632b5c46845a2701e",),
        folders=("amazon_photo", "amazon-photo"),
        note=_REPACKED,
    ),
    _shchur(
        "computers",
        _BOUGHT,
        "amazon_electronics_computers.npz",
        Facts(13_752, 491_722, 767, 10),
        folders=("amazon_computers", "amazon-computers"),
    ),
    _shchur(
        "coauthor-cs",
        _COAUTHORS,
        "ms_academic_cs.npz",
        Facts(18_333, 163_788, 6_805, 15),
        folders=("coauthor_cs",),
    ),
)
