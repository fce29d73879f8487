"""BallPlay-M: a humanoid learns five basketball skills from six motion-capture clips of one to three seconds."""

from dataclasses import replace
from functools import partial

from skillfield.characters.humanoid import humanoid
from skillfield.evaluation.court import CourtDribbleRule, LayupRule, ShotRule
from skillfield.evaluation.plan import TrialPlan
from skillfield.experiments.stages import Stage
from skillfield.experiments.task import Task
from skillfield.imitation import EnvConfig
from skillfield.imitation.termination import Termination
from skillfield.learning.history_encoder import EncoderConfig
from skillfield.learning.ppo import PPOConfig
from skillfield.reference import Augmentation

__all__ = ["ballplay", "ballplay_full_hands", "ballplay_paper"]

_SHOT_APEX = 2.94
"""Metres: the ball's greatest height in the captured shot."""

_BEYOND_THE_CLIPS = Stage(
    180_000_000,
    {
        "env.clip_end": "loop",
        "ppo.gae_lambda": 0.98,  # a throw is judged by its catch, forty steps later
        "augmentation.velocity": 1.0,
        "augmentation.p_external": 0.2,
    },
)
"""Who can dribble learns what follows a throw, and more often how to come to a skill from another one."""

_STEADY = Stage(400_000_000, {"env.insight": True, "ppo.target_kl": 0.02})
"""Who comes round is judged by a critic that knows more, in smaller steps."""

_LIVES = Stage(
    400_000_000,  # begun at 200 million, a third of the throws still failed 170 million later
    {
        "env.p_carry": 0.7,
        "env.p_lost": 0.3,
        "augmentation.p_away": 0.1,
        "augmentation.detours": True,
        "augmentation.p_external": 0.4,  # of the starts, which are two fifths of the episodes now
        "augmentation.p_neighbour": 0.9,
    },
)
"""And learns to do so again and again, and to stand when the ball is gone."""

_POLISH = Stage(690_000_000, {"ppo.target_kl": 0.008})
"""Smaller steps still."""


def ballplay() -> Task:
    """Fingers fused, thousands of worlds, large batches; in stages, like the chain of runs that passed the paper."""
    return Task(
        name="ballplay",
        summary="a humanoid and a basketball: three dribbles, layup, shot, from motion capture (GPU, an hour)",
        character=partial(humanoid, "fused"),
        clips=None,
        data="ballplay",
        stand_in="courtside",
        trials=TrialPlan(
            rules={
                "dribble_forward": CourtDribbleRule(),
                "dribble_left": CourtDribbleRule(),
                "dribble_right": CourtDribbleRule(),
                "layup": LayupRule(),
                "shot": ShotRule(apex=_SHOT_APEX),
            },
        ),
        env=EnvConfig(termination=Termination(lost_after=15)),
        augmentation=Augmentation(velocity=0.1),
        encoder=EncoderConfig(channels=(64, 32, 16), stride=3, horizons=(1, 8, 16, 32), noise=0.01, drift=0.01),
        ppo=PPOConfig(
            fused=True,
            horizon=16,
            minibatch=16384,
            epochs=4,
            learning_rate=1e-4,
            target_kl=0.03,
            max_learning_rate=3e-4,
            first_action="demonstrated",
            by_skill=True,
            half=True,
        ),
        stages=(_BEYOND_THE_CLIPS, _STEADY, _POLISH),
        own_stages=(_LIVES,),
        num_envs=8192,
        minutes=60.0,
        table_samples=750_000_000,
    )


def ballplay_full_hands() -> Task:
    """The same with every finger moving: 168 degrees of freedom, as the recordings have them."""
    return replace(
        ballplay(),
        name="ballplay-full-hands",
        summary="the same with all fingers (GPU, three hours)",
        character=partial(humanoid, "full"),
        minutes=180.0,
    )


def ballplay_paper() -> Task:
    """The paper's own settings on our engines: all fingers, 2048 worlds, small steps, its encoder and similarity."""
    return replace(
        ballplay_full_hands(),
        name="ballplay-paper",
        summary="the paper's own settings (GPU, many hours)",
        env=EnvConfig(),
        augmentation=Augmentation(),
        encoder=EncoderConfig(),
        ppo=PPOConfig(),
        stages=(),
        own_stages=(),
        num_envs=2048,
        minutes=24 * 60.0,
        table_samples=1_300_000_000,
    )
