"""Jobs of many processes: roles, strategies, the fleet itself."""
from .base import DistributedOptimizer, Fleet, fleet
from .role import (GeneralRoleMaker, PaddleCloudRoleMaker, Role,
                   UserDefinedCollectiveRoleMaker, UserDefinedRoleMaker)
from .strategy import (DistributedStrategy, DistributedStrategyFactory,
                       StrategyFactory)
