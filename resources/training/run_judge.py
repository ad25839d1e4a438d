"""The judge of a run: the profile's, as the recipe wants it.

Takes the profile's judge resource and a recipe, gives the resource to open. Graph and worker
both ask here, so that what a run's key names is what rules.
"""

from decomposerl.errors import ConfigError
from decomposerl.training.experiment import Experiment
from resources.judge.resource import JudgeResource


def judge_for(judge: JudgeResource, experiment: Experiment) -> JudgeResource:
    """The judge with the recipe's thinking.

    Raises:
        ConfigError: the recipe wants a judge that is not there.
    """
    if experiment.judge == "tiny":
        raise ConfigError(
            f"experiment '{experiment.name}' is judged by the tiny judge, which this version does "
            "not have"
        )
    if experiment.judge_thinking is None or judge.engine != "chat":
        return judge
    thinking = "on" if experiment.judge_thinking else "off"
    return judge.model_copy(update={"thinking": thinking})
