"""Where a clip goes on after its last frame: from where the character stands, not from where the demonstration ended.

A clip that comes round is stitched to itself, and its next round begins at the place of the last frame. A character
that has followed it for a while stands a step aside of that place, for ever: rewards are in world coordinates, and
after a throw that it had to run after they would all be nothing. So at each seam the character's root is taken to
stand and head as the reference's does, and is compared from there. The same is done where an episode goes on in the
state that another one ended in.
Shape letters: E environments, N frames of all clips, B key bodies, O objects.
"""

import torch
from torch import Tensor

from skillfield.characters.layout import Layout
from skillfield.reference.kinematics import Kinematics
from skillfield.reference.motion import ReferenceMotion
from skillfield.rotations import quat_about_z, quat_multiply, rotate_about_z

__all__ = ["Anchor"]


class Anchor:
    """The move in the ground plane by which each environment's state is compared with its reference."""

    def __init__(self, motion: ReferenceMotion, layout: Layout, envs: int, anywhere: bool = False) -> None:
        """anywhere: environments are moved at other frames than seams, too."""
        self._motion, self._layout = motion, layout
        self._seam = _seams(motion)  # [N] the first frame of another round, or of another demonstration
        self.needed = anywhere or bool(self._seam.any())
        # turn, origin and target of `Layout.move_in_plane`
        self._identity = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], device=motion.device)
        self._envs = envs
        self.place = self.at_home()

    def at_home(self) -> Tensor:
        """The place of environments that stand where their reference is.  [E, 3, 2]"""
        return self._identity.expand(self._envs, 3, 2).clone()

    def clear(self, envs: Tensor) -> None:
        """These environments start anew, where their reference is."""
        self.place[envs] = self._identity

    def clear_where(self, ended: Tensor) -> None:
        """The same for those of a mask.  [E] bool"""
        torch.where(ended[:, None, None], self._identity, self.place, out=self.place)

    def drop(self, row: Tensor, qpos: Tensor) -> None:
        """Take the environments whose reference is at a seam from where they stand.  [E], [E, Q]"""
        self.drop_where(self._seam[row], row, qpos)

    def drop_where(self, chosen: Tensor, row: Tensor, qpos: Tensor) -> None:
        """The same for those of a mask, whatever their frame.  [E] bool, [E], [E, Q]"""
        fresh = self._layout.alignment(qpos, self._motion.qpos[row])
        for part, own in zip(fresh, self.place.unbind(1), strict=True):  # PyTorch 2.11 cannot compile them as one
            own.copy_(torch.where(chosen.unsqueeze(1), part, own))

    def moved(self, state: Kinematics) -> Kinematics:
        """States as they are compared."""
        turn, origin, target = self.place.unbind(1)

        def placed(position: Tensor) -> Tensor:  # [E, n, 3]
            from_origin = torch.cat((position[..., :2] - origin.unsqueeze(1), position[..., 2:]), dim=-1)
            there = rotate_about_z(turn, from_origin)
            return torch.cat((there[..., :2] + target.unsqueeze(1), there[..., 2:]), dim=-1)

        still = torch.zeros_like(state.qpos[:, : self._layout.num_dofs])
        qpos, _ = self._layout.move_in_plane(state.qpos, still, turn, origin, target)
        about_z = quat_about_z(turn).unsqueeze(1)
        return Kinematics(
            key_pos_w=placed(state.key_pos_w),
            key_vel_w=rotate_about_z(turn, state.key_vel_w),
            qpos=qpos,
            joint_vel=state.joint_vel,
            object_pos_w=placed(state.object_pos_w),
            object_quat_w=quat_multiply(about_z.expand_as(state.object_quat_w), state.object_quat_w),
            object_lin_vel_w=rotate_about_z(turn, state.object_lin_vel_w),
            object_ang_vel_w=rotate_about_z(turn, state.object_ang_vel_w),
        )


def _seams(motion: ReferenceMotion) -> Tensor:
    """The first frame after each row of masked states that is not missing. A masked state repeats the frame before it,
    and a frame that its clip lacks does not.  [N] bool"""
    clip, origin, valid = motion.clip_of_row, motion.origin, motion.valid
    row, same_clip = torch.arange(len(origin), device=motion.device), clip == clip.roll(1)

    def last(mask: Tensor) -> Tensor:  # the last row up to here
        return torch.where(mask, row, -1).cummax(0).values

    waits = ~valid & same_clip & (origin == origin.roll(1))
    return valid & same_clip & (last(waits) > last(valid).roll(1))
