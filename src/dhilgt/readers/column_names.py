"""Names that columns of ids, classes and parts of a split have in the files of people."""

ID_NAMES = frozenset(("id", "ids", "node", "nodes", "nodeid", "node_id", "vertex", "vertex_id"))
CLASS_NAMES = frozenset(("label", "labels", "class", "classes", "y", "target", "category"))
PART_NAMES = frozenset(("part", "split", "set", "subset", "fold", "mask"))
_NOUNS = frozenset((
    "accession", "account", "actor", "address", "article", "asin", "asn", "author", "barcode",
    "block", "book", "city", "code", "company", "compound", "country", "customer", "device", "doc",
    "document", "doi", "domain", "ean", "email", "employee", "entity", "entry", "fips", "gene",
    "guid", "handle", "hash", "host", "iata", "index", "ip", "isbn", "issn", "item", "key",
    "login", "member", "molecule", "movie", "name", "number", "orcid", "page", "paper", "patient",
    "person", "player", "pmid", "post", "product", "protein", "pubmed", "record", "ref",
    "reference", "screen_name", "sku", "smiles", "station", "stop", "student", "subject", "symbol",
    "ticker", "title", "token", "track", "uniprot", "upc", "uri", "url", "user", "username",
    "uuid", "uid", "wallet", "word", "zip", "zipcode",
))  # fmt: skip
_ROW_NUMBERS = ("", "unnamed:_0")


def plain(name: str) -> str:
    """Return the name of a column as it is compared: lower case, underscores for blanks."""
    return name.strip().lower().replace(" ", "_").replace("-", "_").lstrip("#")


def id_strength(name: str) -> int:
    """Return how much a name speaks for ids: 3 for "id", 2 for "paper_id", 1 for a noun, else 0.

    Example:
        >>> [id_strength(name) for name in ("Node ID", "userId", "sku", "age")]
        [3, 2, 1, 0]
    """
    word = plain(name)
    if word in ID_NAMES:
        return 3
    if word.endswith(("_id", ".id")) or word.startswith(("id_", "id.")):
        return 2
    if name.strip().endswith(("Id", "ID")) or (word.endswith("id") and word[:-2] in _NOUNS):
        return 2
    return int(word in _NOUNS or word.rstrip("s") in _NOUNS)


def is_unnamed(name: str) -> bool:
    """Return whether a program wrote the column without a name: row names, or row numbers."""
    return plain(name) in _ROW_NUMBERS
