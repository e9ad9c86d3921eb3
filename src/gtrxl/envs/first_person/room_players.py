"""Which player with a perfect memory plays which level of open rooms."""

from gtrxl.envs.contract import Task
from gtrxl.envs.first_person.collect import CollectGood, CollectGoodPlayer
from gtrxl.envs.first_person.described import DescribedObject, DescribedObjectPlayer
from gtrxl.envs.first_person.nonmatching import SelectNonmatching, SelectNonmatchingPlayer
from gtrxl.envs.first_person.object_rewards import ObjectRewards, ObjectRewardsPlayer
from gtrxl.envs.first_person.psychlab import VisuomotorMapping, VisuomotorMappingPlayer
from gtrxl.envs.first_person.steering import Shadow
from gtrxl.envs.first_person.watermaze import Watermaze, WatermazePlayer


def room_player(task: Task) -> Shadow | None:
    """The player; None if the task is none of these levels."""
    match task:
        case SelectNonmatching():
            return SelectNonmatchingPlayer(task)
        case Watermaze():
            return WatermazePlayer(task)
        case CollectGood():
            return CollectGoodPlayer(task)
        case ObjectRewards():
            return ObjectRewardsPlayer(task)
        case DescribedObject():
            return DescribedObjectPlayer(task)
        case VisuomotorMapping():
            return VisuomotorMappingPlayer(task)
        case _:
            return None
