"""From MuJoCo's own arrays to joint targets: everything between a simulator and its drives, as one module.

Made of the parts that the environment is made of, so that what is exported is what was trained.
Shape letters: E worlds, S skills, k frames of history, F features of a frame, N bodies of the model, Q position
coordinates, M numbers of the sensors, U actuators.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from skillfield.characters import Character
from skillfield.errors import ConfigError
from skillfield.experiments.loading import TrainedRun
from skillfield.imitation.history import HistoryKind
from skillfield.imitation.perception import Perception
from skillfield.learning.networks import ActorCritic
from skillfield.simulation.readout import MujocoReadout

__all__ = ["MJDATA", "Controller"]

MJDATA = ("qpos", "xpos", "xquat", "cvel", "subtree_com", "sensordata")
"""What is read of MjData, by its names there."""


class Controller(nn.Module):
    """Reads, remembers, observes, normalises, decides, and turns actions into targets."""

    def __init__(
        self,
        character: Character,
        networks: ActorCritic,
        skills: Sequence[str],
        history: HistoryKind = "none",
        history_length: int = 60,
    ) -> None:
        super().__init__()
        if history == "time":
            raise ConfigError("this policy is told the reference time: it cannot act without its demonstrations")
        if history == "encoder" and networks.encoder is None:
            raise ConfigError("history is 'encoder', but there is no encoder")
        self.character, self.skills, self.history = character, tuple(skills), history
        self.networks = networks.cpu().eval().requires_grad_(False)
        self._read = MujocoReadout(character)
        self._perception = Perception(character)
        self._actions = character.action_map()
        joints, bodies = len(character.layout().joint_qpos), len(character.body_names)
        features = 1 + 3 * (bodies - 1 + len(character.object_names)) + joints
        self.window = (history_length, features) if history in ("encoder", "stacked") else None

    @staticmethod
    def of(run: TrainedRun, character: Character) -> "Controller":
        """A run's policy, for a character of its task."""
        env = run.config.env
        return Controller(character, run.networks, run.task.skills, env.history, env.history_length)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Inputs in the order of `forward`, without the axis of worlds."""
        model = self.character.model
        bodies, sensors = int(model.nbody), int(model.nsensordata)
        sizes = ((int(model.nq),), (bodies, 3), (bodies, 4), (bodies, 6), (bodies, 3), (sensors,))
        shapes: dict[str, tuple[int, ...]] = dict(zip(MJDATA, sizes, strict=True)) | {"skill": (len(self.skills),)}
        return shapes if self.window is None else shapes | {"history": self.window, "first": ()}

    def forward(
        self,
        qpos: Tensor,  # [E, Q]
        xpos: Tensor,  # [E, N, 3]
        xquat: Tensor,  # [E, N, 4]
        cvel: Tensor,  # [E, N, 6]
        subtree_com: Tensor,  # [E, N, 3]
        sensordata: Tensor,  # [E, M]
        skill: Tensor,  # [E, S] one-hot
        history: Tensor | None = None,  # [E, k, F] what came before, oldest first
        first: Tensor | None = None,  # [E] bool: nothing came before; the present counts as having always been
    ) -> tuple[Tensor, ...]:
        """Targets of the drives [E, U] and, of a policy that remembers, the history for the next step."""
        nothing = qpos.new_zeros(qpos.shape[0], 0)
        state = self._read(
            qpos=qpos,
            qvel=nothing,
            xpos=xpos,
            xquat=xquat,
            cvel=cvel,
            subtree_com=subtree_com,
            sensordata=sensordata,
            diverged=nothing,
        )
        seen = self._perception.observation(state, skill)
        if history is None or first is None:
            return (self._targets(seen, state.qpos),)
        now = self._perception.features(state).unsqueeze(1)
        past = torch.where(first[:, None, None], now, history)
        encoder = self.networks.encoder if self.history == "encoder" else None
        memory = past.flatten(1) if encoder is None else encoder(past)
        targets = self._targets(torch.cat((seen, memory), dim=1), state.qpos)
        return targets, torch.cat((past[:, 1:], now), dim=1)

    def _targets(self, observation: Tensor, qpos: Tensor) -> Tensor:
        return self._actions.targets(self.networks.act(observation), qpos)
