"""Where each thing lies in MuJoCo's position and velocity vectors, as tensors on one device.

Shape letters: Q position coordinates, D degrees of freedom, J joint columns of a clip, O objects.
"""

import math
from typing import Literal

import mujoco
import numpy as np
import torch
from torch import Tensor

from skillfield.rotations import (
    axes_xz,
    heading_cos_sin,
    quat_about_z,
    quat_from_rotvec,
    quat_multiply,
    rotvec_between,
    rotvec_from_quat,
)

__all__ = ["Layout", "RootKind", "joint_columns", "root_kind"]

RootKind = Literal["free", "gantry", "fixed"]

_FREE, _BALL = mujoco.mjtJoint.mjJNT_FREE.value, mujoco.mjtJoint.mjJNT_BALL.value
_SLIDE, _HINGE = mujoco.mjtJoint.mjJNT_SLIDE.value, mujoco.mjtJoint.mjJNT_HINGE.value

_LOCKED = 1e-3
"""Radians from a quarter turn of the middle of three hinges, within which the outer two turn about the same axis."""


def root_kind(model: mujoco.MjModel, root: int) -> RootKind:
    """How the root moves: a free joint, a gantry (slides x, y, z, then hinges in x, y, z order), or not of its own.

    A gantry's axes are the world's and its hinges go through the body's origin; what hangs on anything that turns or
    moves, is turned itself, or has its hinges elsewhere is fixed: its joints are joint columns.
    """
    joints = _joints_of(model, root)
    types = [model.jnt_type[j] for j in joints]
    if types == [_FREE]:
        return "free"
    if types[:3] == [_SLIDE] * 3 and all(kind == _HINGE for kind in types[3:]):
        slides, hinges = [_axis(model, j) for j in joints[:3]], [_axis(model, j) for j in joints[3:]]
        in_order = None not in hinges and hinges == sorted(set(hinges))  # type: ignore[type-var]
        if slides == [0, 1, 2] and in_order and _hangs_straight(model, root):
            return "gantry"
    return "fixed"


def joint_columns(model: mujoco.MjModel, root: int, bodies: list[int]) -> tuple[list[str], list[int]]:
    """Names of a clip's joint columns and the joints behind them: all of the character's but the root's own."""
    root_joints = set() if root_kind(model, root) == "fixed" else set(_joints_of(model, root))
    joints = [j for body in bodies for j in _joints_of(model, body) if j not in root_joints]
    names: list[str] = []
    for j in joints:
        name = model.joint(j).name
        names += [f"{name}_{axis}" for axis in "xyz"] if model.jnt_type[j] == _BALL else [name]
    return names, joints


class Layout:
    """Packs clip columns into positions, and subtracts positions as rotations must be subtracted."""

    def __init__(
        self,
        model: mujoco.MjModel,
        root: int,
        joints: list[int],
        objects: list[int],
        device: torch.device | str = "cpu",
    ) -> None:
        self.num_qpos, self.num_dofs = int(model.nq), int(model.nv)
        self._kind = root_kind(model, root)
        self._default = torch.tensor(model.qpos0, dtype=torch.float32, device=device)
        index = lambda values: torch.tensor(np.array(values, dtype=np.int64), device=device)  # noqa: E731

        scalar_q, scalar_d, quat_q, quat_d = [], [], [], []
        for j in range(model.njnt):
            q, d, kind = int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j]), model.jnt_type[j]
            if kind == _FREE:
                scalar_q += [q, q + 1, q + 2]
                scalar_d += [d, d + 1, d + 2]
                q, d = q + 3, d + 3
            if kind in (_FREE, _BALL):
                quat_q.append([q, q + 1, q + 2, q + 3])
                quat_d.append([d, d + 1, d + 2])
            else:
                scalar_q.append(q)
                scalar_d.append(d)
        self._scalar_q, self._scalar_d = index(scalar_q), index(scalar_d)
        self._quat_q, self._quat_d = index(quat_q).reshape(-1, 4), index(quat_d).reshape(-1, 3)

        root_joints = [] if self._kind == "fixed" else _joints_of(model, root)
        first = int(model.jnt_qposadr[root_joints[0]]) if root_joints else 0
        self._root_q = index(range(first, first + (7 if self._kind == "free" else len(root_joints))))
        axes = [_axis(model, j) for j in root_joints[3:]] if self._kind == "gantry" else []
        self._hinges = tuple(axis for axis in axes if axis is not None)
        self._gantry_zero = torch.zeros(len(self._root_q), dtype=torch.float64, device=device)
        if self._kind == "gantry":  # its coordinates where a clip's root is at the origin and not turned
            refs = model.qpos0[first : first + len(root_joints)]
            shift = np.pad(_body_origin(model, root), (0, len(root_joints) - 3))
            self._gantry_zero = torch.tensor(refs - shift, dtype=torch.float64, device=device)
        self._gantry_moved = bool(self._gantry_zero.any())
        place = _world_origin(model, root)[:2] if self._kind == "fixed" else np.zeros(2)
        self._fixed_place = torch.tensor(place, dtype=torch.float32, device=device)

        self._joint_q: list[tuple[Tensor, bool]] = []
        self.ball_columns: list[int] = []
        """Joint columns at which a ball joint's rotation vector begins."""
        column = 0
        for j in joints:
            ball = model.jnt_type[j] == _BALL
            if ball:
                self.ball_columns.append(column)
            column += 3 if ball else 1
            q = int(model.jnt_qposadr[j])
            self._joint_q.append((index(range(q, q + (4 if ball else 1))), bool(ball)))
        self._object_q = [int(model.jnt_qposadr[_joints_of(model, body)[0]]) for body in objects]

        character_joints = [*root_joints, *joints]
        self.joint_dofs = index([d for j in joints for d in _dofs_of(model, j)])
        """Degrees of freedom behind the joint columns, in their order.  [J]"""
        self.joint_qpos = torch.cat([where for where, _ in self._joint_q]) if joints else index([])
        """Position coordinates of the joints; four for a ball joint, whose orientation they are."""
        root_dofs = [d for j in root_joints for d in _dofs_of(model, j)]
        object_dofs = [_dofs_of(model, _joints_of(model, body)[0]) for body in objects]
        self.fields = {
            "root_pos": index(root_dofs[:3]),
            "root_rot": index(root_dofs[3:]),
            "joint": self.joint_dofs,
            "object_pos": index([d for dofs in object_dofs for d in dofs[:3]]),
            "object_rot": index([d for dofs in object_dofs for d in dofs[3:]]),
        }
        """Degrees of freedom by what they move."""
        self._moved_q = index([[q, q + 1] for q in [*([first] if root_joints else []), *self._object_q]]).reshape(-1, 2)
        moved = [*([root_dofs[0]] if root_joints else []), *(dofs[0] for dofs in object_dofs)]
        self._moved_d = index([[d, d + 1] for d in moved]).reshape(-1, 2)
        turned = [q + 3 for q in [*([first] if self._kind == "free" else []), *self._object_q]]
        self._turned_q = index([[q, q + 1, q + 2, q + 3] for q in turned]).reshape(-1, 4)

        scalars = [j for j in character_joints if model.jnt_type[j] == _HINGE]
        quats = [j for j in character_joints if model.jnt_type[j] in (_FREE, _BALL)]
        self._rotation_scalar_q = index([int(model.jnt_qposadr[j]) for j in scalars])
        quat_starts = [int(model.jnt_qposadr[j]) + (3 if model.jnt_type[j] == _FREE else 0) for j in quats]
        self._rotation_quat_q = index([[q, q + 1, q + 2, q + 3] for q in quat_starts]).reshape(-1, 4)

    def pack(
        self, root_pos: Tensor, root_quat: Tensor, joint_pos: Tensor, object_pos: Tensor, object_quat: Tensor
    ) -> Tensor:
        """Positions of the whole scene from a clip's columns.  [T, Q], or [Q] from a single frame

        Rows are frames of one motion: a gantry's hinges go on past ±π where the motion does.
        """
        qpos = self._default.to(root_pos.dtype).expand(*root_pos.shape[:-1], -1).clone()
        if self._kind == "free":
            qpos[..., self._root_q] = torch.cat((root_pos, root_quat), dim=-1)
        elif self._kind == "gantry":
            gantry = torch.cat((root_pos, _hinge_angles(root_quat, self._hinges)), dim=-1)
            qpos[..., self._root_q] = gantry + self._gantry_zero.to(gantry.dtype) if self._gantry_moved else gantry
        column = 0
        for where, ball in self._joint_q:
            width = 3 if ball else 1
            value = joint_pos[..., column : column + width]
            qpos[..., where] = quat_from_rotvec(value) if ball else value
            column += width
        for number, start in enumerate(self._object_q):
            qpos[..., start : start + 3] = object_pos[..., number, :]
            qpos[..., start + 3 : start + 7] = object_quat[..., number, :]
        return qpos

    def unpack(self, qpos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Joint columns and object poses of positions: what `pack` was given.  [..., J], [..., O, 3], [..., O, 4]"""
        columns = [rotvec_from_quat(qpos[..., where]) if ball else qpos[..., where] for where, ball in self._joint_q]
        poses = [qpos[..., start : start + 7] for start in self._object_q]
        objects = torch.stack(poses, dim=-2) if poses else qpos.new_zeros(*qpos.shape[:-1], 0, 7)
        return torch.cat([qpos[..., :0], *columns], dim=-1), objects[..., :3], objects[..., 3:]

    def difference(self, start: Tensor, end: Tensor) -> Tensor:
        """The motion from one position to another, as a velocity held for one second would make it.  [..., D]"""
        shape = torch.broadcast_shapes(start.shape[:-1], end.shape[:-1])
        change = start.new_zeros(*shape, self.num_dofs)
        change[..., self._scalar_d] = end[..., self._scalar_q] - start[..., self._scalar_q]
        if len(self._quat_q):
            change[..., self._quat_d] = rotvec_between(start[..., self._quat_q], end[..., self._quat_q])
        return change

    def rotations(self, qpos: Tensor) -> tuple[Tensor, Tensor]:
        """The character's hinge angles and its orientations, the root's included.  [..., h], [..., g, 4]"""
        return qpos[..., self._rotation_scalar_q], qpos[..., self._rotation_quat_q]

    def rotation_difference(self, start: Tensor, end: Tensor) -> Tensor:
        """The same for the character's rotations alone, the root's included: the rotation term of the reward."""
        scalars = end[..., self._rotation_scalar_q] - start[..., self._rotation_scalar_q]
        if not len(self._rotation_quat_q):
            return scalars
        turns = rotvec_between(start[..., self._rotation_quat_q], end[..., self._rotation_quat_q])
        return torch.cat((scalars, turns.flatten(-2)), dim=-1)

    def plane_frame(self, qpos: Tensor) -> tuple[Tensor, Tensor]:
        """Where the root stands in the ground plane and where it heads: x, y and the heading's cosine and sine.

        A gantry cannot turn, so its frame never does; a fixed root has the world's frame.
        """
        if self._kind == "free":
            return qpos[..., self._root_q[:2]], heading_cos_sin(qpos[..., self._root_q[3:]])
        one = torch.ones_like(qpos[..., :1])  # a tensor made of host numbers could not be recorded
        ahead = torch.cat((one, torch.zeros_like(one)), dim=-1)
        if self._kind == "fixed":
            return torch.zeros_like(ahead), ahead
        place = qpos[..., self._root_q[:2]]
        return place - self._gantry_zero[:2].to(place.dtype) if self._gantry_moved else place, ahead

    def place(self, qpos: Tensor) -> Tensor:
        """Where the root stands in the ground plane: x and y.  [..., 2]"""
        if self._kind == "fixed":
            return self._fixed_place.expand(*qpos.shape[:-1], 2)
        return self.plane_frame(qpos)[0]

    def alignment(self, qpos: Tensor, onto: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Turn, origin and target for `move_in_plane`: the roots of `qpos` go where those of `onto` stand and head."""
        origin, ahead = self.plane_frame(qpos)
        target, goal_ahead = self.plane_frame(onto)
        c, s = ahead.unbind(-1)
        gc, gs = goal_ahead.unbind(-1)
        return torch.stack((gc * c + gs * s, gs * c - gc * s), dim=-1), origin, target

    def move_in_plane(
        self, qpos: Tensor, qvel: Tensor, turn: Tensor, origin: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Turn the whole scene about `origin` (x, y) by the angle with this cosine and sine; origin goes to target.

        A free joint's angular velocity is in its own frame and stays; its linear velocity turns with the scene.
        """
        qpos, qvel = qpos.clone(), qvel.clone()
        c, s = turn[..., 0].unsqueeze(-1), turn[..., 1].unsqueeze(-1)

        def turned(xy: Tensor) -> Tensor:  # [..., n, 2]
            x, y = xy.unbind(-1)
            return torch.stack((c * x - s * y, s * x + c * y), dim=-1)

        shifted = qpos[..., self._moved_q] - origin.unsqueeze(-2)
        qpos[..., self._moved_q] = turned(shifted) + target.unsqueeze(-2)
        qvel[..., self._moved_d] = turned(qvel[..., self._moved_d])
        if len(self._turned_q):
            about_z = quat_about_z(turn).unsqueeze(-2)
            qpos[..., self._turned_q] = quat_multiply(
                about_z.expand_as(qpos[..., self._turned_q]), qpos[..., self._turned_q]
            )
        return qpos, qvel

    def with_objects(self, qpos: Tensor, qvel: Tensor, position: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        """The same states with the objects elsewhere, turned as they are.  position, velocity: [..., O, 3]"""
        qpos, qvel = qpos.clone(), qvel.clone()
        for number, start in enumerate(self._object_q):
            qpos[..., start : start + 3] = position[..., number, :]
        qvel[..., self.fields["object_pos"]] = velocity.flatten(-2)
        return qpos, qvel

    def integrate(self, start: Tensor, change: Tensor) -> Tensor:
        """The inverse of `difference`: the position reached from `start` by `change`.  [..., Q]"""
        end = start.clone()
        end[..., self._scalar_q] += change[..., self._scalar_d]
        if len(self._quat_q):
            turn = quat_from_rotvec(change[..., self._quat_d])
            end[..., self._quat_q] = quat_multiply(start[..., self._quat_q], turn)
        return end


def _hinge_angles(quat: Tensor, hinges: tuple[int, ...]) -> Tensor:
    """Angles of those factors of Rx(a)·Ry(b)·Rz(c) = R(quat) for which there is a hinge, without jumps along a motion.

    quat: [T, 4], or a single [4]; as many rows come back, with a column for each hinge
    """
    if not hinges:
        return quat[..., :0]
    x, z = axes_xz(torch.atleast_2d(quat))
    y = torch.linalg.cross(z, x)
    angles = _three_angles(x, y, z) if len(hinges) == 3 else _two_angles(x, y, z, hinges)
    return _unwrapped(angles).reshape(*quat.shape[:-1], len(hinges))


def _two_angles(x: Tensor, y: Tensor, z: Tensor, hinges: tuple[int, ...]) -> Tensor:
    """Angles of one or two of Rx(a), Ry(b), Rz(c), from the axes that they turn: each is its own in all of ±π.

    x, y, z: the body's axes in the world, [T, 3]
    """
    a = torch.atan2(y[:, 2], y[:, 1]) if hinges == (0, 1) else torch.atan2(-z[:, 1], z[:, 2])
    b = torch.atan2(z[:, 0], x[:, 0]) if 0 in hinges else torch.atan2(z[:, 0], z[:, 2])
    c = torch.atan2(x[:, 1], y[:, 1]) if 1 in hinges else torch.atan2(-y[:, 0], x[:, 0])
    return torch.stack([(a, b, c)[axis] for axis in hinges], dim=-1)


def _three_angles(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Angles of Rx(a)·Ry(b)·Rz(c), begun with b within ±π/2.  [T, 3]

    (a + π, π - b, c + π) is the same orientation: from frame to frame the nearer of the two is taken. Where z points
    along ±x only a ± c can be told: there a goes evenly from where it was last seen to where it is seen again.
    """
    across = torch.hypot(z[:, 1], z[:, 2])  # |cos b|
    seen = torch.nonzero(across > _LOCKED).squeeze(1)
    a, b, c = torch.atan2(-z[:, 1], z[:, 2]), torch.atan2(z[:, 0], across), torch.atan2(-y[:, 0], x[:, 0])
    angles = torch.stack((a, b, c), dim=-1)[seen]
    others = torch.stack((a + math.pi, math.pi - b, c + math.pi), dim=-1)[seen]
    a = torch.where(_changes_sides(angles, others), others[:, 0], angles[:, 0])
    a = _between(seen, _unwrapped(a[:, None])[:, 0], len(z))
    sin, cos = a.sin(), a.cos()
    b = torch.atan2(z[:, 0], cos * z[:, 2] - sin * z[:, 1])
    c = torch.atan2(cos * x[:, 1] + sin * x[:, 2], cos * y[:, 1] + sin * y[:, 2])
    return torch.stack((a, b, c), dim=-1)


def _changes_sides(angles: Tensor, others: Tensor) -> Tensor:
    """In which rows the other angles lead on from the rows before; not in the first.  [T]"""
    before = torch.cat((angles[:1], angles[:-1]))
    change = torch.stack((angles, others)) - before
    way, other_way = (change - _whole_turns(change)).square().sum(dim=-1)
    return (other_way < way).cumsum(dim=0) % 2 == 1


def _between(rows: Tensor, values: Tensor, count: int) -> Tensor:
    """Values in all rows from those in some, evenly from one to the next; zero where there is none.  [count]"""
    if not len(rows):
        return values.new_zeros(count)
    return torch.as_tensor(np.interp(np.arange(count), rows.cpu(), values.cpu())).to(values)


def _unwrapped(angles: Tensor) -> Tensor:
    """The same angles without jumps of 2π from one row to the next.  [T, h]"""
    turns = _whole_turns(angles.diff(dim=0)).cumsum(dim=0)
    return torch.cat((angles[:1], torch.where(turns == 0, angles[1:], angles[1:] - turns)))


def _whole_turns(change: Tensor) -> Tensor:
    """The multiple of 2π nearest to a change of angle."""
    return 2 * math.pi * (change / (2 * math.pi)).round()


def _hangs_straight(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body's own axes are the world's at rest, its hinges go through its origin, and it hangs on nothing
    that moves."""
    if model.jnt_pos[_joints_of(model, body)[3:]].any() or model.body_mocapid[model.body_rootid[body]] >= 0:
        return False
    while body:
        if not np.allclose(np.abs(model.body_quat[body]), (1, 0, 0, 0), atol=1e-9):
            return False
        body = int(model.body_parentid[body])
        if model.body_jntnum[body]:
            return False
    return True


def _body_origin(model: mujoco.MjModel, body: int) -> np.ndarray:
    """Where a body that hangs straight begins, in the world.  [3]"""
    origin = np.zeros(3)
    while body:
        origin += model.body_pos[body]
        body = int(model.body_parentid[body])
    return origin


def _world_origin(model: mujoco.MjModel, body: int) -> np.ndarray:
    """Where a body is while every joint is at rest.  [3]"""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return np.array(data.xpos[body])


def _joints_of(model: mujoco.MjModel, body: int) -> list[int]:
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    return list(range(first, first + count))


def _dofs_of(model: mujoco.MjModel, joint: int) -> list[int]:
    first = int(model.jnt_dofadr[joint])
    return list(range(first, first + {_FREE: 6, _BALL: 3}.get(model.jnt_type[joint], 1)))


def _axis(model: mujoco.MjModel, joint: int) -> int | None:
    """0, 1 or 2 for a joint along +x, +y or +z."""
    where = np.flatnonzero(np.isclose(model.jnt_axis[joint], 1.0, atol=1e-6))
    return int(where[0]) if len(where) == 1 else None
