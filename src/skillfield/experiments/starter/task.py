"""The starter task: five ball skills of a floating hand, trained on a laptop's CPU in minutes."""

from skillfield.characters import hand
from skillfield.evaluation.plan import TrialPlan
from skillfield.evaluation.success import DribbleRule, HoldRule, TossRule
from skillfield.experiments.starter.authoring import CLIP_FOLDER, DRIBBLE_SPEED
from skillfield.experiments.task import Task
from skillfield.imitation import EnvConfig
from skillfield.imitation.termination import Termination
from skillfield.learning.history_encoder import EncoderConfig
from skillfield.learning.ppo import PPOConfig
from skillfield.reference import Augmentation, TrackingWeights

__all__ = ["starter"]


def starter() -> Task:
    """A floating hand learns to dribble forward, left and right, to hold, and to wait and toss."""
    return Task(
        name="starter",
        summary="a floating hand and a ball: three dribbles, hold, and a toss that needs memory (CPU, minutes)",
        character=hand,
        clips=CLIP_FOLDER,
        trials=TrialPlan(
            rules={
                "dribble_forward": DribbleRule(direction=(1.0, 0.0), speed=DRIBBLE_SPEED),
                "dribble_left": DribbleRule(direction=(0.0, 1.0), speed=DRIBBLE_SPEED),
                "dribble_right": DribbleRule(direction=(0.0, -1.0), speed=DRIBBLE_SPEED),
                "hold": HoldRule(min_height=1.0),
                "toss": TossRule(min_still_seconds=0.3, max_still_seconds=0.8),
            },
            start_before={"toss": 0.4},
        ),
        env=EnvConfig(
            weights=TrackingWeights(position=30.0, rotation=3.0, velocity=0.3, object_position=5.0, relative=30.0),
            contact_weights=(2.0, 2.0, 2.0),
            termination=Termination(min_root_height=None),
        ),
        augmentation=Augmentation(
            p_external=0.1, p_neighbour=0.1, frame_sharpness=4.0, skill_sharpness=3.0, velocity=0.1, margin=0.1
        ),
        encoder=EncoderConfig(
            channels=(16, 16, 8),
            stride=3,
            horizons=(1, 8, 16, 32),
            noise=0.01,
            drift=0.01,
            steps=1200,
            hidden=(128, 64),
        ),
        ppo=PPOConfig(
            hidden=(128, 96),
            horizon=16,
            minibatch=1024,
            epochs=3,
            learning_rate=5e-4,
            learning_rate_final=5e-5,
            sigma=0.08,
            sigma_final=0.04,
            bound_weight=2.0,
            by_skill=True,
        ),
        device="cpu",
        num_envs=512,
        minutes=3.0,
    )
