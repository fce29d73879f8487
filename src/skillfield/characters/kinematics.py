"""Forward kinematics in torch: where every body is, for a whole batch of positions, on any device.

Every joint becomes a node of its own, so that a node has at most one joint; nodes of the same depth move together.
Shape letters: N nodes, B bodies asked for, Q position coordinates.
"""

import mujoco
import torch
from torch import Tensor

from skillfield.rotations import quat_from_rotvec, quat_multiply, quat_rotate

__all__ = ["ForwardKinematics"]

_FREE, _BALL = mujoco.mjtJoint.mjJNT_FREE.value, mujoco.mjtJoint.mjJNT_BALL.value
_SLIDE, _HINGE = mujoco.mjtJoint.mjJNT_SLIDE.value, mujoco.mjtJoint.mjJNT_HINGE.value


class ForwardKinematics:
    """Poses of some bodies of a model. Equal to `mj_kinematics`, but batched."""

    def __init__(self, model: mujoco.MjModel, bodies: list[int], device: torch.device | str = "cpu") -> None:
        parents, offset_pos, offset_quat, joints = [-1], [[0.0] * 3], [[1.0, 0, 0, 0]], [-1]
        node_of_body = {0: 0}
        for body in range(1, model.nbody):
            parent = node_of_body[int(model.body_parentid[body])]
            pos, quat = model.body_pos[body].tolist(), model.body_quat[body].tolist()
            first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
            for joint in range(first, first + count) if count else [-1]:
                parents.append(parent)
                offset_pos.append(pos)
                offset_quat.append(quat)
                joints.append(joint)
                parent, pos, quat = len(parents) - 1, [0.0] * 3, [1.0, 0.0, 0.0, 0.0]
            node_of_body[body] = parent
        depth = [0]
        for parent in parents[1:]:
            depth.append(depth[parent] + 1)

        def tensor(values: object, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        self._offset_pos, self._offset_quat = tensor(offset_pos), tensor(offset_quat)  # [N, 3], [N, 4]
        self._levels = [
            (tensor(nodes, torch.long), tensor([parents[n] for n in nodes], torch.long))
            for level in range(1, max(depth) + 1)
            if (nodes := [n for n, d in enumerate(depth) if d == level])
        ]
        self._bodies = tensor([node_of_body[body] for body in bodies], torch.long)
        self._kinds: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]] = {}
        for kind, width in ((_FREE, 7), (_BALL, 4), (_SLIDE, 1), (_HINGE, 1)):
            nodes = [n for n, j in enumerate(joints) if j >= 0 and model.jnt_type[j] == kind]
            if nodes:
                own = [joints[n] for n in nodes]
                columns = [[int(model.jnt_qposadr[j]) + i for i in range(width)] for j in own]
                self._kinds[kind] = (
                    tensor(nodes, torch.long),
                    tensor(columns, torch.long),
                    tensor(model.jnt_axis[own].tolist()),
                    tensor(model.jnt_pos[own].tolist()),
                )
        self._rest = tensor(model.qpos0.tolist())

    def __call__(self, qpos: Tensor) -> tuple[Tensor, Tensor]:
        """World positions and orientations.  [..., Q] → [..., B, 3], [..., B, 4]"""
        lead = qpos.shape[:-1]
        pos = self._offset_pos.to(qpos.dtype).expand(*lead, -1, -1).clone()  # relative to the parent, for now
        quat = self._offset_quat.to(qpos.dtype).expand(*lead, -1, -1).clone()
        for kind, (nodes, columns, axis, anchor) in self._kinds.items():
            value = qpos[..., columns]  # [..., n, width]
            if kind == _FREE:
                pos[..., nodes, :], quat[..., nodes, :] = value[..., :3], value[..., 3:]
                continue
            axis, anchor = axis.to(qpos.dtype), anchor.to(qpos.dtype)
            if kind == _BALL:
                turn = value
            else:
                change = (value - self._rest.to(qpos.dtype)[columns]) * axis
                if kind == _SLIDE:
                    pos[..., nodes, :] += quat_rotate(quat[..., nodes, :], change)
                    continue
                turn = quat_from_rotvec(change)
            stays = anchor.expand_as(turn[..., 1:])
            pos[..., nodes, :] += quat_rotate(quat[..., nodes, :], stays - quat_rotate(turn, stays))
            quat[..., nodes, :] = quat_multiply(quat[..., nodes, :], turn)
        for nodes, parents in self._levels:
            above = quat[..., parents, :]
            pos[..., nodes, :] = pos[..., parents, :] + quat_rotate(above, pos[..., nodes, :])
            quat[..., nodes, :] = quat_multiply(above, quat[..., nodes, :])
        return pos[..., self._bodies, :], quat[..., self._bodies, :]
