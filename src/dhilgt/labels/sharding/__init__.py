"""Labels in parts: independent units of work over ranges of hubs, merged by ranges of nodes."""

from dhilgt.labels.sharding.build import (
    FoundStage,
    build_sharded,
    merge_stages,
    search_stages,
)
from dhilgt.labels.sharding.finish import finish, remove_work
from dhilgt.labels.sharding.last_stage import FoundRest, search_last_stage
from dhilgt.labels.sharding.merge import merge_holders, merge_range, merge_with_rest
from dhilgt.labels.sharding.plan import HubRange, ShardPlan, Stage, plan_shards
from dhilgt.labels.sharding.ranked import RankedGraphFiles, write_ranked_graph
from dhilgt.labels.sharding.rest import (
    forget_rest,
    read_found,
    search_level,
    search_rest,
    settle_levels,
    write_found,
)
from dhilgt.labels.sharding.search import search_hubs
from dhilgt.labels.sharding.table import write_table_part, write_top_table
from dhilgt.labels.sharding.units import (
    HubShard,
    LabelPart,
    LevelPart,
    PartFile,
    RestFound,
    SettledPart,
    TablePart,
    TopTable,
)

__all__ = [
    "FoundRest",
    "FoundStage",
    "HubRange",
    "HubShard",
    "LabelPart",
    "LevelPart",
    "PartFile",
    "RankedGraphFiles",
    "RestFound",
    "SettledPart",
    "ShardPlan",
    "Stage",
    "TablePart",
    "TopTable",
    "build_sharded",
    "finish",
    "forget_rest",
    "merge_holders",
    "merge_range",
    "merge_stages",
    "merge_with_rest",
    "plan_shards",
    "read_found",
    "remove_work",
    "search_hubs",
    "search_last_stage",
    "search_level",
    "search_rest",
    "search_stages",
    "settle_levels",
    "write_found",
    "write_ranked_graph",
    "write_table_part",
    "write_top_table",
]
