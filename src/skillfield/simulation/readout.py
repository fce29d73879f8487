"""MuJoCo's own arrays as the state that every engine shows. In torch alone, so that an exported policy reads them too.

Shape letters: E worlds, N bodies of the model (the world first), M numbers of its sensors; the rest as in `engine`.
"""

import numpy as np
import torch
from torch import Tensor

from skillfield.characters import Character
from skillfield.simulation.engine import SimulationState

__all__ = ["MujocoReadout"]


class MujocoReadout:
    """Picks a character's bodies, objects and sensors out of the arrays of MjData."""

    def __init__(self, character: Character) -> None:
        rows = np.array([*character.body_ids, *character.object_ids])
        self._rows = _index(rows)
        self._tree = _index(character.model.body_rootid[rows])  # spatial velocities are about its centre of mass
        self._num_bodies = len(character.body_ids)
        self._force_columns = [start + axis for start in character.force_sensors for axis in range(3)]
        self._pair_columns = [list(columns) for columns in character.pair_sensors]

    def __call__(
        self,
        *,
        qpos: Tensor,  # [E, Q]
        qvel: Tensor,  # [E, D]
        xpos: Tensor,  # [E, N, 3]
        xquat: Tensor,  # [E, N, 4]
        cvel: Tensor,  # [E, N, 6] about the centre of mass of the body's tree: turning, then moving
        subtree_com: Tensor,  # [E, N, 3]
        sensordata: Tensor,  # [E, M]
        diverged: Tensor,  # [E] bool
    ) -> SimulationState:
        """The same by the character's names; slices of what is given where they can be."""
        pos, quat, spatial = (array[:, self._rows] for array in (xpos, xquat, cvel))
        ang_vel, com_vel = spatial[..., :3], spatial[..., 3:]
        lin_vel = com_vel + torch.linalg.cross(ang_vel, pos - subtree_com[:, self._tree])
        pairs = [
            (sensordata[:, columns].amax(dim=1) > 0).float() if columns else sensordata.new_zeros(sensordata.shape[0])
            for columns in self._pair_columns
        ]
        return SimulationState.of_poses(
            self._num_bodies,
            pos,
            quat,
            lin_vel,
            ang_vel,
            qpos=qpos,
            qvel=qvel,
            # The sensor's normal points away from its body, so it reports the force that the body exerts.
            contact_force_w=-sensordata[:, self._force_columns].unflatten(1, (-1, 3)),
            contact_pairs=torch.stack(pairs, dim=1),
            diverged=diverged,
        )


def _index(rows: np.ndarray) -> list[int] | slice:
    """Consecutive rows as a slice, which costs no copy."""
    consecutive = np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows)))
    return slice(int(rows[0]), int(rows[0]) + len(rows)) if consecutive else rows.tolist()
