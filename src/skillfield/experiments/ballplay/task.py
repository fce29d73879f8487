"""BallPlay-M: a humanoid learns five basketball skills from six motion-capture clips of one to three seconds."""

from dataclasses import replace
from functools import partial

from skillfield.characters.humanoid import humanoid
from skillfield.evaluation.court import CourtDribbleRule, LayupRule, ShotRule
from skillfield.evaluation.metrics import TrialPlan
from skillfield.experiments.task import Task
from skillfield.imitation import EnvConfig
from skillfield.imitation.termination import Termination
from skillfield.learning.history_encoder import EncoderConfig
from skillfield.learning.ppo import PPOConfig
from skillfield.reference import Augmentation

__all__ = ["ballplay", "ballplay_full_hands", "ballplay_paper"]

_SHOT_APEX = 2.94
"""Metres: the ball's greatest height in the captured shot."""


def ballplay() -> Task:
    """Fingers fused, thousands of worlds, large batches: as in the run that passed the paper, and changes since."""
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
        env=EnvConfig(termination=Termination(lost_after=15), clip_end="loop", p_carry=0.7, p_lost=0.3, insight=True),
        augmentation=Augmentation(velocity=1.0, detours=True, p_external=0.3),
        encoder=EncoderConfig(channels=(64, 32, 16), stride=3, horizons=(1, 8, 16, 32), noise=0.01, drift=0.01),
        ppo=PPOConfig(
            horizon=16,
            minibatch=16384,
            epochs=4,
            learning_rate=1e-4,
            target_kl=0.03,
            target_kl_final=0.008,
            max_learning_rate=3e-4,
            gae_lambda=0.98,  # a throw is judged by its catch, forty steps later
            first_action="demonstrated",
            by_skill=True,
            half=True,
        ),
        num_envs=8192,
        minutes=60.0,
        table_samples=240_000_000,
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
        num_envs=2048,
        minutes=24 * 60.0,
    )
