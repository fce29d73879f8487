"""Rotations: facts that hold for every quaternion, checked over many random ones."""

import math

import pytest
import torch
from torch import Tensor

from skillfield.rotations import (
    axes_xz,
    heading_cos_sin,
    quat_conjugate,
    quat_from_matrix,
    quat_from_rotvec,
    quat_multiply,
    quat_rotate,
    quat_slerp,
    quat_swing,
    rotate_heading_inverse,
    rotvec_between,
    rotvec_from_quat,
)

COUNT = 500


def random_quats(count: int = COUNT) -> Tensor:
    """Uniformly random unit quaternions of either sign, in double precision.  [count, 4]"""
    q = torch.randn(count, 4, dtype=torch.float64)
    return q / q.norm(dim=-1, keepdim=True)


def random_rotvecs(longest: float, count: int = COUNT) -> Tensor:
    """Rotation vectors of random direction, no longer than `longest`.  [count, 3]"""
    axis = torch.randn(count, 3, dtype=torch.float64)
    return axis / axis.norm(dim=-1, keepdim=True) * longest * torch.rand(count, 1, dtype=torch.float64)


def about_z(angle: Tensor) -> Tensor:
    """Quaternions of a turn about the vertical.  [..., 4]"""
    return quat_from_rotvec(torch.stack((0 * angle, 0 * angle, angle), dim=-1))


def matrices(q: Tensor) -> Tensor:
    """The textbook rotation matrix.  [..., 3, 3]"""
    w, x, y, z = q.unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def same_rotation(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> bool:
    """Whether quaternions agree up to their sign, which means nothing."""
    return bool(((a * b).sum(dim=-1).abs() > 1 - tolerance).all())


@pytest.mark.parametrize("longest", [1e-12, 1e-6, 1.0, math.pi - 1e-9])
def test_rotvec_survives_the_way_through_a_quaternion(longest: float) -> None:
    """A rotation vector of any length below π comes back from its quaternion."""
    v = random_rotvecs(longest)
    torch.testing.assert_close(rotvec_from_quat(quat_from_rotvec(v)), v, rtol=1e-7, atol=1e-14)


def test_quat_survives_the_way_through_a_rotvec() -> None:
    """A quaternion comes back from its rotation vector, up to its sign."""
    q = random_quats()
    assert same_rotation(quat_from_rotvec(rotvec_from_quat(q)), q)


def test_rotvec_takes_the_short_way_round() -> None:
    """No rotation vector is longer than π, and both signs of a quaternion give the same one."""
    q = random_quats()
    assert float(rotvec_from_quat(q).norm(dim=-1).max()) <= math.pi + 1e-12
    torch.testing.assert_close(rotvec_from_quat(q), rotvec_from_quat(-q))


def test_identity_has_no_rotvec() -> None:
    """The identity, in single precision and with either sign, is exactly the zero vector."""
    identity = torch.tensor([[1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]])
    assert torch.equal(rotvec_from_quat(identity), torch.zeros(2, 3))
    assert torch.equal(quat_from_rotvec(torch.zeros(3)), identity[0])


def test_difference_across_the_seam_is_small() -> None:
    """From just under +π to just over -π is a small turn, not almost a full one."""
    axis = random_rotvecs(1.0)
    axis = axis / axis.norm(dim=-1, keepdim=True)
    before, after = quat_from_rotvec(axis * (math.pi - 0.01)), quat_from_rotvec(-axis * (math.pi - 0.02))
    torch.testing.assert_close(rotvec_between(before, after), axis * 0.03, rtol=0, atol=1e-9)


def test_difference_leads_from_the_first_to_the_second() -> None:
    """Orientation a, then the difference in a's own frame, is orientation b."""
    a, b = random_quats(), random_quats()
    assert same_rotation(quat_multiply(a, quat_from_rotvec(rotvec_between(a, b))), b)


def test_conjugate_undoes() -> None:
    """A rotation times its conjugate is the identity."""
    q = random_quats()
    product = quat_multiply(q, quat_conjugate(q))
    torch.testing.assert_close(product, product.new_tensor([1.0, 0.0, 0.0, 0.0]).expand_as(product))


def test_rotating_is_multiplying_by_the_matrix() -> None:
    """quat_rotate agrees with the rotation matrix."""
    q, v = random_quats(), torch.randn(COUNT, 3, dtype=torch.float64)
    torch.testing.assert_close(quat_rotate(q, v), (matrices(q) @ v.unsqueeze(-1)).squeeze(-1))


def test_one_quat_rotates_many_vectors() -> None:
    """A quaternion broadcasts over the vectors of its row."""
    q, v = random_quats(4), torch.randn(4, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(quat_rotate(q.unsqueeze(1), v), torch.einsum("eij,enj->eni", matrices(q), v))


def test_product_applies_the_right_factor_first() -> None:
    """Turning by a·b is turning by b and then by a."""
    a, b, v = random_quats(), random_quats(), torch.randn(COUNT, 3, dtype=torch.float64)
    torch.testing.assert_close(quat_rotate(quat_multiply(a, b), v), quat_rotate(a, quat_rotate(b, v)))


def test_axes_are_columns_of_the_matrix() -> None:
    """The six-number form holds the turned x and z axes."""
    q = random_quats()
    x_axis, z_axis = axes_xz(q)
    torch.testing.assert_close(x_axis, matrices(q)[..., 0])
    torch.testing.assert_close(z_axis, matrices(q)[..., 2])


def test_heading_of_a_pure_turn_is_its_angle() -> None:
    """A turn about z by α has heading (cos α, sin α)."""
    angle = torch.linspace(-math.pi, math.pi, 50, dtype=torch.float64)
    torch.testing.assert_close(heading_cos_sin(about_z(angle)), torch.stack((angle.cos(), angle.sin()), dim=-1))


def test_pitch_does_not_change_the_heading() -> None:
    """Nodding up or down, short of the vertical, leaves the heading alone."""
    yaw = torch.linspace(-3.0, 3.0, 50, dtype=torch.float64)
    nod = quat_from_rotvec(torch.stack((0 * yaw, yaw / 2.2, 0 * yaw), dim=-1))
    torch.testing.assert_close(heading_cos_sin(quat_multiply(about_z(yaw), nod)), heading_cos_sin(about_z(yaw)))


def test_heading_frame_ignores_turns_of_the_world() -> None:
    """Turning character and vectors together about z leaves the vectors in the heading frame as they were."""
    q, v = random_quats(), torch.randn(COUNT, 5, 3, dtype=torch.float64)
    turn = about_z(torch.rand(COUNT, dtype=torch.float64) * 2 * math.pi)
    before = rotate_heading_inverse(heading_cos_sin(q), v)
    after = rotate_heading_inverse(heading_cos_sin(quat_multiply(turn, q)), quat_rotate(turn.unsqueeze(1), v))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)


def test_x_points_ahead_in_the_heading_frame() -> None:
    """A vector along the heading becomes a vector along +x, and heights stay."""
    q = random_quats()
    heading = heading_cos_sin(q)
    ahead = torch.cat((heading, torch.full_like(heading[:, :1], 0.7)), dim=-1)
    expected = torch.tensor([1.0, 0.0, 0.7], dtype=torch.float64).expand_as(ahead)
    torch.testing.assert_close(rotate_heading_inverse(heading, ahead), expected)


def test_a_matrix_becomes_its_quaternion() -> None:
    """Every rotation comes back from its matrix, half turns about the axes included."""
    half_turns = torch.eye(4, dtype=torch.float64)
    q = torch.cat((random_quats(), half_turns))
    assert same_rotation(quat_from_matrix(matrices(q)), q)


def test_a_swing_points_one_vector_along_another_and_does_not_twist() -> None:
    """The turned vector is parallel to the other, and the axis lies across both."""
    u, v = (torch.randn(COUNT, 3, dtype=torch.float64) for _ in range(2))
    swing = quat_swing(u, v)
    turned = quat_rotate(swing, u)
    torch.testing.assert_close(turned / turned.norm(dim=-1, keepdim=True), v / v.norm(dim=-1, keepdim=True))
    axis = rotvec_from_quat(swing)
    for vector in (u, v):
        torch.testing.assert_close((axis * vector).sum(dim=-1), torch.zeros(COUNT).double(), rtol=0, atol=1e-9)


def test_opposed_vectors_swing_by_half_a_turn() -> None:
    """Where no axis is given by the two vectors, one across them is taken; equal vectors stay."""
    u = torch.cat((torch.eye(3, dtype=torch.float64), torch.randn(20, 3, dtype=torch.float64)))
    torch.testing.assert_close(quat_rotate(quat_swing(u, -2 * u), u), -u)
    torch.testing.assert_close(rotvec_from_quat(quat_swing(u, u)), torch.zeros_like(u), rtol=0, atol=1e-7)


def test_the_way_between_orientations_is_even_and_short() -> None:
    """A share of the way is that share of the angle, from a at 0 to b at 1, whichever sign b has."""
    a, b, share = random_quats(), random_quats(), torch.rand(COUNT, 1, dtype=torch.float64)
    part, whole = rotvec_between(a, quat_slerp(a, b, share)), rotvec_between(a, b)
    torch.testing.assert_close(part, share * whole, rtol=0, atol=1e-9)
    assert same_rotation(quat_slerp(a, -b, share), quat_slerp(a, b, share))
    assert same_rotation(quat_slerp(a, b, torch.ones(COUNT, 1).double()), b)
