"""Labels in parts: independent units of work over ranges of hubs, merged by ranges of nodes."""

from dhilgt.labels.sharding.build import FoundStage, build_sharded, search_stages
from dhilgt.labels.sharding.finish import finish, remove_work
from dhilgt.labels.sharding.merge import merge_holders, merge_range
from dhilgt.labels.sharding.plan import HubRange, ShardPlan, Stage, plan_shards
from dhilgt.labels.sharding.ranked import RankedGraphFiles, write_ranked_graph
from dhilgt.labels.sharding.rest import forget_rest, search_level, search_rest
from dhilgt.labels.sharding.search import search_hubs
from dhilgt.labels.sharding.table import write_table_part, write_top_table
from dhilgt.labels.sharding.units import (
    HubShard,
    LabelPart,
    LevelPart,
    PartFile,
    TablePart,
    TopTable,
)

__all__ = [
    "FoundStage",
    "HubRange",
    "HubShard",
    "LabelPart",
    "LevelPart",
    "PartFile",
    "RankedGraphFiles",
    "ShardPlan",
    "Stage",
    "TablePart",
    "TopTable",
    "build_sharded",
    "finish",
    "forget_rest",
    "merge_holders",
    "merge_range",
    "plan_shards",
    "remove_work",
    "search_hubs",
    "search_level",
    "search_rest",
    "search_stages",
    "write_ranked_graph",
    "write_table_part",
    "write_top_table",
]
