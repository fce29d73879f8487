"""Rotations in torch. Quaternions are w, x, y, z; rotation vectors are in radians; the last axis holds components."""

import torch
from torch import Tensor

__all__ = [
    "axes_xz",
    "heading_cos_sin",
    "quat_about_z",
    "quat_conjugate",
    "quat_from_matrix",
    "quat_from_rotvec",
    "quat_multiply",
    "quat_rotate",
    "quat_slerp",
    "quat_swing",
    "rotate_about_z",
    "rotate_heading_inverse",
    "rotvec_between",
    "rotvec_from_quat",
]

_SMALL = 1e-8


def quat_conjugate(q: Tensor) -> Tensor:
    """The inverse of a unit quaternion."""
    return torch.cat((q[..., :1], -q[..., 1:]), dim=-1)


def quat_multiply(a: Tensor, b: Tensor) -> Tensor:
    """The rotation b followed by the rotation a."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        dim=-1,
    )


def quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """The vector v turned by q."""
    u = q[..., 1:].expand_as(v)
    t = 2.0 * torch.linalg.cross(u, v)
    return v + q[..., :1] * t + torch.linalg.cross(u, t)


def quat_from_rotvec(v: Tensor) -> Tensor:
    """Unit quaternion of a rotation vector."""
    angle = v.norm(dim=-1, keepdim=True)
    half = 0.5 * angle
    # sin(x/2)/x → 1/2 as x → 0
    scale = torch.where(angle > _SMALL, torch.sin(half) / angle.clamp_min(_SMALL), torch.full_like(angle, 0.5))
    return torch.cat((torch.cos(half), v * scale), dim=-1)


def rotvec_from_quat(q: Tensor) -> Tensor:
    """Rotation vector of a unit quaternion, the short way round (length at most π)."""
    q = torch.where(q[..., :1] < 0, -q, q)
    sin_half = q[..., 1:].norm(dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(sin_half, q[..., :1])
    scale = torch.where(sin_half > _SMALL, angle / sin_half.clamp_min(_SMALL), torch.full_like(angle, 2.0))
    return q[..., 1:] * scale


def rotvec_between(a: Tensor, b: Tensor) -> Tensor:
    """Rotation vector that takes orientation a to orientation b, in a's own frame; safe across the ±π seam."""
    return rotvec_from_quat(quat_multiply(quat_conjugate(a), b))


def quat_slerp(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """The orientation a share of the way from a to b, the short way round at constant speed.

    share: broadcasts against the orientations, with a last axis of one.
    """
    return quat_multiply(a, quat_from_rotvec(share * rotvec_between(a, b)))


def quat_swing(u: Tensor, v: Tensor) -> Tensor:
    """The smallest rotation that points the vector u along the vector v; any half turn if they are opposed."""
    u, v = (x / x.norm(dim=-1, keepdim=True) for x in (u, v))
    axis = torch.linalg.cross(u, v)
    sin, cos = axis.norm(dim=-1, keepdim=True), (u * v).sum(dim=-1, keepdim=True)
    # of opposed vectors any axis across them will do: take the one nearest to a coordinate axis that u is not along
    spare = torch.linalg.cross(u, torch.nn.functional.one_hot(u.abs().argmin(dim=-1), 3).to(u.dtype))
    axis = torch.where(sin > _SMALL, axis, spare)
    return quat_from_rotvec(axis / axis.norm(dim=-1, keepdim=True) * torch.atan2(sin, cos))


def quat_from_matrix(m: Tensor) -> Tensor:
    """Unit quaternion of a rotation matrix.  [..., 3, 3] → [..., 4]"""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = m.flatten(-2).unbind(-1)
    multiples = (  # each is the quaternion times four times one of its components
        (1 + xx + yy + zz, zy - yz, xz - zx, yx - xy),
        (zy - yz, 1 + xx - yy - zz, yx + xy, xz + zx),
        (xz - zx, yx + xy, 1 - xx + yy - zz, zy + yz),
        (yx - xy, xz + zx, zy + yz, 1 - xx - yy + zz),
    )
    table = torch.stack([torch.stack(row, dim=-1) for row in multiples], dim=-2)  # [..., 4, 4]
    largest = table.diagonal(dim1=-2, dim2=-1).argmax(dim=-1)  # divides best
    q = table.gather(-2, largest[..., None, None].expand(*largest.shape, 1, 4)).squeeze(-2)
    return q / q.norm(dim=-1, keepdim=True)


def axes_xz(q: Tensor) -> tuple[Tensor, Tensor]:
    """World directions of the local x and z axes: the continuous six-number form of a rotation."""
    w, x, y, z = q.unbind(-1)
    x_axis = torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)), dim=-1)
    z_axis = torch.stack((2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)), dim=-1)
    return x_axis, z_axis


def heading_cos_sin(q: Tensor) -> Tensor:
    """Cosine and sine of the heading: where the local x axis points in the ground plane.  [..., 2]"""
    w, x, y, z = q.unbind(-1)
    flat = torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z)), dim=-1)
    length = flat.norm(dim=-1, keepdim=True)
    # an x axis that points straight up heads nowhere: call it ahead, so that the result is always a turn
    ahead = torch.stack((torch.ones_like(w), torch.zeros_like(w)), dim=-1)
    return torch.where(length > 1e-6, flat / length.clamp_min(1e-6), ahead)


def rotate_heading_inverse(cos_sin: Tensor, v: Tensor) -> Tensor:
    """Turn world vectors by minus the heading, so that x points ahead."""
    c, s = cos_sin.unbind(-1)
    return rotate_about_z(torch.stack((c, -s), dim=-1), v)


def quat_about_z(cos_sin: Tensor) -> Tensor:
    """Quaternion of a turn about the vertical, from the cosine and sine of its angle."""
    c, s = cos_sin.unbind(-1)
    half = 0.5 * torch.atan2(s, c)
    zero = torch.zeros_like(half)
    return torch.stack((half.cos(), zero, zero, half.sin()), dim=-1)


def rotate_about_z(cos_sin: Tensor, v: Tensor) -> Tensor:
    """Turn vectors about the vertical by the angle of this cosine and sine."""
    c, s = cos_sin[..., 0], cos_sin[..., 1]
    while c.dim() < v.dim() - 1:
        c, s = c.unsqueeze(-1), s.unsqueeze(-1)
    x, y, z = v.unbind(-1)
    return torch.stack((c * x - s * y, c * y + s * x, z), dim=-1)
