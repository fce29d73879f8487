"""What the character is compared with: a frame of a clip, and where in the character's world that clip lies.

A clip was recorded somewhere; a character that has run for a minute is somewhere else. Whenever a clip is taken up, it
is moved in the ground plane so that its frame stands where the character stands and heads where it heads.
"""

import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.characters.layout import Layout
from skillfield.reference import ReferenceMotion, TrackingWeights
from skillfield.reference.graph import canonical
from skillfield.reference.kinematics import Kinematics
from skillfield.reference.similarity import similarity_exponent, similarity_features
from skillfield.reference.states import StateKinematics
from skillfield.rotations import quat_about_z, quat_multiply

__all__ = ["Following"]

_VELOCITY = 0.1  # least weight of velocities: a falling ball must not be taken for a rising one


class Following:
    """Finds the frame of a skill that is most like a state, and shows the clip from there on in the state's place."""

    def __init__(self, motion: ReferenceMotion, character: Character, weights: TrackingWeights) -> None:
        self.motion, self.layout = motion, character.layout()
        self._states = StateKinematics(character)
        self._weights = weights.at_least(_VELOCITY, _VELOCITY)
        self._features = similarity_features(canonical(motion, self._states), self._weights, self.layout)
        self._skill_of_row = motion.skill[motion.clip_of_row]
        self._possible = motion.start_mask()
        self.stay()

    def stay(self) -> None:
        """The clips lie where they were recorded."""
        self._placement = (torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2), torch.zeros(1, 2))

    def nearest(self, qpos: Tensor, qvel: Tensor, skill: int) -> tuple[int, int]:
        """Clip and frame of a skill that are most like a state, wherever the state is.  [1, Q], [1, D]"""
        origin, ahead = self.layout.plane_frame(qpos)
        back = ahead * torch.tensor([1.0, -1.0])
        home = self._states(*self.layout.move_in_plane(qpos, qvel, back, origin, torch.zeros_like(origin)))
        mine = similarity_features(home, self._weights, self.layout)
        rows = torch.nonzero((self._skill_of_row == skill) & self._possible).squeeze(1)
        row = rows[int(similarity_exponent(mine, self._features.rows(rows))[0].argmin())]
        clip = int(self.motion.clip_of_row[row])
        return clip, int(row - self.motion.start[clip])

    def bring(self, clip: int, frame: int, qpos: Tensor) -> None:
        """From now on the clips lie so that this frame stands where the state does.  [1, Q]"""
        self._placement = self.layout.alignment(self._qpos(clip, frame), qpos)

    def pose(self, clip: int, frame: int) -> Tensor:
        """A frame in the character's world.  [Q]"""
        qpos = self._qpos(clip, frame)
        return self.layout.move_in_plane(qpos, torch.zeros(1, self.layout.num_dofs), *self._placement)[0][0]

    def kinematics(self, row: Tensor) -> Kinematics:
        """The same for everything that the reward compares.  [1]"""
        return _moved(self.motion.kinematics(row), self.layout, *self._placement)

    def _qpos(self, clip: int, frame: int) -> Tensor:
        return self.motion.qpos[self.motion.row(torch.tensor([clip]), torch.tensor([frame]))]


def _moved(state: Kinematics, layout: Layout, turn: Tensor, origin: Tensor, target: Tensor) -> Kinematics:
    """A state turned about `origin` and carried to `target`."""
    c, s = turn[0]
    matrix = torch.stack((torch.stack((c, -s)), torch.stack((s, c))))  # [2, 2]
    about_z = quat_about_z(turn)

    def turned(vector: Tensor) -> Tensor:
        return torch.cat((vector[..., :2] @ matrix.T, vector[..., 2:]), dim=-1)

    def placed(point: Tensor) -> Tensor:
        away = torch.nn.functional.pad(origin, (0, 1)).unsqueeze(1)
        there = torch.nn.functional.pad(target, (0, 1)).unsqueeze(1)
        return turned(point - away) + there

    qpos, _ = layout.move_in_plane(state.qpos, state.qpos.new_zeros(1, layout.num_dofs), turn, origin, target)
    return Kinematics(
        key_pos_w=placed(state.key_pos_w),
        key_vel_w=turned(state.key_vel_w),
        qpos=qpos,
        joint_vel=state.joint_vel,
        object_pos_w=placed(state.object_pos_w),
        object_quat_w=quat_multiply(about_z.unsqueeze(1).expand_as(state.object_quat_w), state.object_quat_w),
        object_lin_vel_w=turned(state.object_lin_vel_w),
        object_ang_vel_w=turned(state.object_ang_vel_w),
    )
