"""Small datasets in every raw format, as files."""

import gzip
import pickle
from collections import defaultdict

import numpy as np
import scipy.io
import scipy.sparse

CITATIONS = {0: [1, 2], 1: [0], 2: [0, 3], 3: [2, 3], 4: [7], 5: [], 6: [7], 7: [4, 6, 6]}


def planetoid(root, name="cora", test_index=(7, 4, 6), num_train=2):
    """Eight nodes: rows 0 to 3 come first, the test index lists 4, 6 and 7; of 5 nothing is known.

    Node v has the single word v, and class v % 3.
    """
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    eye = scipy.sparse.csr_matrix(np.eye(8, dtype=np.float32))
    one_hot = np.eye(3, dtype=np.int32)[np.arange(8) % 3]
    test = list(test_index)
    parts = {
        "x": eye[:num_train],
        "y": one_hot[:num_train],
        "allx": eye[:4],
        "ally": one_hot[:4],
        "tx": eye[test],
        "ty": one_hot[test],
        "graph": defaultdict(list, CITATIONS),
    }
    for end, value in parts.items():
        (folder / f"ind.{name}.{end}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{v}\n" for v in test))
    return folder


def yandex(root, name="tolokers", file="tolokers.npz", num_splits=3):
    """Five nodes on a path; split k tests node k."""
    folder = root / name / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    test = np.eye(5, dtype=bool)[:num_splits]
    val = np.roll(test, 1, axis=1)
    np.savez(
        folder / file,
        node_features=np.arange(10, dtype=np.float32).reshape(5, 2),
        node_labels=np.array([0, 1, 0, 1, 1]),
        edges=np.array([[0, 1], [1, 2], [2, 3], [3, 4]]),
        train_masks=~(test | val),
        val_masks=val,
        test_masks=test,
    )
    return folder / file


def gnn_benchmark(root, name="physics", file="ms_academic_phy.npz"):
    """Four nodes: 0 and 1 cite each other, 2 cites itself and 3."""
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    links = scipy.sparse.csr_matrix(
        (np.ones(4, np.float32), ([0, 1, 2, 2], [1, 0, 2, 3])), shape=(4, 4)
    )
    words = scipy.sparse.csr_matrix(np.array([[0, 2, 0], [1, 0, 0], [0, 0, 0], [3, 0, 5]], float))
    arrays = {"labels": np.array([0, 1, 1, 2])}
    for key, matrix in (("adj", links), ("attr", words)):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{key}_{part}"] = np.asarray(getattr(matrix, part))
    # The published files hold names as objects, which only a pickle can carry: they are not read.
    arrays["node_names"] = np.array(["ann", "bob", "cid", "dan"], dtype=object)
    np.savez(folder / file, **arrays)
    return folder / file


def facebook100(root, name="penn94", file="Penn94.mat"):
    """Five people in a ring; the third gave no gender."""
    folder = root / name / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    ring = scipy.sparse.csc_matrix(np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1))
    facts = np.array(
        [
            [1, 1, 10, 0, 5, 2005, 7],
            [1, 2, 11, 0, 5, 2006, 8],
            [2, 0, 10, 0, 6, 2005, 7],
            [1, 2, 12, 3, 5, 2005, 9],
            [1, 1, 10, 0, 5, 0, 7],
        ],
        dtype=np.uint16,
    )
    scipy.io.savemat(folder / file, {"A": ring, "local_info": facts})
    return folder / file


def linkx_splits(path, splits):
    """Splits as LINKX stores them: an array of dicts, which is a pickle inside a .npy file."""
    named = [dict(zip(("train", "valid", "test"), split, strict=True)) for split in splits]
    array = np.empty(len(named), dtype=object)
    array[:] = [{part: np.array(nodes) for part, nodes in one.items()} for one in named]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array, allow_pickle=True)
    return path


def genius(root):
    folder = root / "genius" / "raw"
    folder.mkdir(parents=True)
    values = {
        "edge_index": np.array([[0, 1, 2], [1, 2, 0]]),
        "node_feat": np.arange(8.0).reshape(4, 2),
        "label": np.array([[0, 1, 1, 0]]),
    }
    scipy.io.savemat(folder / "genius.mat", values)
    return folder / "genius.mat"


STREAMERS = """\
views,mature,life_time,created_at,updated_at,numeric_id,dead_account,language,affiliate
100,1,10,2016-01-02,2018-10-12,1,0,EN,1
300,0,30,2016-01-04,2018-10-12,0,0,DE,0
200,1,20,2017-05-06,2018-10-12,2,1,EN,1
"""


def twitch(root):
    folder = root / "twitch-gamer" / "raw"
    folder.mkdir(parents=True)
    (folder / "large_twitch_features.csv").write_text(STREAMERS)
    (folder / "large_twitch_edges.csv").write_text("numeric_id_1,numeric_id_2\n0,1\n1,2\n")
    return folder


def compressed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def arxiv(root, folder="ogbn_arxiv"):
    """Four papers, each citing the one before; the second has no class."""
    home = root / folder
    compressed(home / "raw/edge.csv.gz", "1,0\n2,1\n3,2\n")
    compressed(home / "raw/node-label.csv.gz", "0\nnan\n1\n0\n")
    compressed(home / "raw/node-feat.csv.gz", "0.5,1\n1.5,2\n2.5,3\n-3.5,4e-1\n")
    for part, nodes in (("train", "0\n"), ("valid", "2\n"), ("test", "3\n")):
        compressed(home / f"split/time/{part}.csv.gz", nodes)
    return home


def mag(root):
    home = root / "ogbn_mag"
    compressed(home / "raw/relations/paper___cites___paper/edge.csv.gz", "1,0\n2,1\n0,1\n")
    compressed(home / "raw/node-label/paper/node-label.csv.gz", "5\n7\n5\n")
    compressed(home / "raw/node-feat/paper/node-feat.csv.gz", "1,2\n3,4\n5,6\n")
    for part, nodes in (("train", "0\n"), ("valid", "1\n"), ("test", "2\n")):
        compressed(home / f"split/time/paper/{part}.csv.gz", nodes)
    return home
