"""Names of columns: which two hold the ends of edges, and what looks like a name at all."""

import re
from collections.abc import Sequence

# Each word of the left column goes with each of the right one: from_user and to_user.
_FIRST = {
    "source", "src", "from", "start", "begin", "origin", "orig", "head", "sender", "parent",
    "citing", "follower", "subject", "caller", "buyer", "payer", "giver", "lender", "left", "first",
    "child", "employer", "employee", "teacher", "student", "seller", "payee", "referrer",
    "upstream", "ego", "predecessor", "ancestor", "winner", "predator",
}  # fmt: skip
_SECOND = {
    "target", "tgt", "to", "end", "dest", "destination", "dst", "tail", "receiver", "recipient",
    "child", "cited", "followee", "followed", "object", "callee", "seller", "payee", "taker",
    "borrower", "right", "second", "parent", "employee", "employer", "student", "teacher", "buyer",
    "payer", "referred", "downstream", "alter", "successor", "descendant", "loser", "prey",
}  # fmt: skip
_MARKS = [("1", "2"), ("0", "1"), ("a", "b"), ("x", "y"), ("i", "j"), ("u", "v"), ("s", "t")]
_LETTERS = {("u", "v"), ("i", "j")}  # names of columns in every textbook
_KEYS = {"id", "ids", "key", "uuid", "uid", "code", "nr", "no", "num", "number", "name", "email"}
_NOUNS = {
    "account", "actor", "address", "airport", "article", "author", "book", "channel", "character",
    "citation", "cite", "cites", "city", "client", "coauthor", "collaborator", "colleague",
    "company", "concept", "connection", "contact", "country", "customer", "dependency", "depends",
    "device", "disease", "doctor", "document", "domain", "drug", "edge", "entity", "father", "film",
    "firm", "follows", "friend", "friends", "gene", "group", "hashtag", "host", "husband",
    "imports", "institution", "interacts", "interactor", "ip", "item", "knows", "likes", "link",
    "linked", "links", "manager", "member", "mentions", "module", "mother", "movie", "neighbor",
    "neighbors", "neighbour", "neighbours", "node", "nodes", "opponent", "organisation",
    "organization", "package", "page", "paper", "papers", "partner", "patient", "people", "person",
    "player", "product", "protein", "reference", "references", "region", "related", "relation",
    "replies", "repo", "repository", "retweets", "reviewer", "router", "shop", "sibling", "site",
    "song", "species", "station", "stop", "store", "streamer", "subreddit", "supplier", "tag",
    "team", "term", "title", "topic", "trusts", "url", "user", "users", "vendor", "vertex",
    "vertices", "viewer", "wallet", "website", "wife", "word",
    *_KEYS, *_FIRST, *_SECOND,
}  # fmt: skip
_SPLIT = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=[0-9])|[\W_]+")

NONE, WEAK, LIKELY, PLAIN = 0, 1, 2, 3


def words_of(name: str) -> list[str]:
    """Return the words of a name of a column in lower case.

    Example:
        >>> words_of("fromNodeId"), words_of("Person A"), words_of("user_id1")
        (['from', 'node', 'id'], ['person', 'a'], ['user', 'id', '1'])
    """
    words = [word.lower() for word in _SPLIT.split(name.strip()) if word]
    joined = {"fromnodeid": ["from", "node", "id"], "tonodeid": ["to", "node", "id"]}
    return joined.get("".join(words), words) if len(words) == 1 else words


def likeness(first: str, second: str) -> int:
    """Return how much two words look like the names of the columns of edges.

    `PLAIN` for names of two roles or of ids (from_user and to_user, user_id and friend_id),
    `LIKELY` for names that count (Person A and Person B, u and v), as ids may, too; `WEAK` for
    kinds of things and relations (paper and cites), otherwise `NONE`.

    Example:
        >>> likeness("from_user", "to_user"), likeness("Person A", "Person B")
        (3, 2)
        >>> likeness("paper", "cites"), likeness("ann", "bob")
        (1, 0)
    """
    a, b = words_of(first), words_of(second)
    if not a or not b or a == b:
        return NONE
    if _is_role_pair(a, b) or _is_role_pair(b, a) or (_is_key(a) and _is_key(b)):
        return PLAIN
    if _is_marked_pair(a, b):
        return LIKELY if len(a) > 1 or (a[0], b[0]) in _LETTERS else WEAK
    is_noun = [any(word in _NOUNS for word in words) for words in (a, b)]
    return WEAK if all(is_noun) else NONE


def end_columns(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the positions of the two columns that are plainly the ends of edges, or None.

    Example:
        >>> end_columns(["when", "from_user", "to_user"]), end_columns(["a1", "w", "x", "y"])
        ((1, 2), (2, 3))
        >>> end_columns(["red", "green", "blue"]) is None
        True
    """
    words = [words_of(name) for name in names]
    places = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    for rule in (_is_role_pair, _is_marked_pair):
        pairs = [(i, j) for i, j in places if rule(words[i], words[j])]
        # child and parent are a pair in either order: that of the columns counts
        pairs = [(i, j) for i, j in pairs if i < j or (j, i) not in pairs]
        if len(pairs) == 1:
            return pairs[0]
        if pairs:
            return None
    keys = [at for at, one in enumerate(words) if len(one) > 1 and _is_key(one)]
    return (keys[0], keys[1]) if len(keys) == 2 else None


def _is_role_pair(a: list[str], b: list[str]) -> bool:
    """Return whether names differ in one word, and the words are roles: from_id and to_id."""
    return any(x in _FIRST and y in _SECOND for x, y in _differences(a, b))


def _is_marked_pair(a: list[str], b: list[str]) -> bool:
    """Return whether names differ in a number or a letter: node1 and node2, Person A, Person B."""
    return any(pair in _MARKS for pair in _differences(a, b))


def _differences(a: list[str], b: list[str]) -> list[tuple[str, str]]:
    if len(a) != len(b):
        return []
    differing = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    return differing if len(differing) == 1 else []


def _is_key(words: list[str]) -> bool:
    """Return whether a name ends, or begins, as those of ids do: user_id, idA, buyer_name."""
    return len(words) > 1 and (words[-1] in _KEYS or words[0] in {"id", "ids"})
