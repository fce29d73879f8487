"""What to imitate: reference motion, and the sampler of starts. Knows nothing of the engine."""

from skillfield.reference.augmentation import Augmentation, AugmentedSampler
from skillfield.reference.kinematics import Kinematics, TrackingWeights, tracking_error, tracking_exponent
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.neighbourhood import Neighbourhood
from skillfield.reference.sampling import Starts, StartSampler

__all__ = [
    "Augmentation",
    "AugmentedSampler",
    "Kinematics",
    "Neighbourhood",
    "ReferenceMotion",
    "StartSampler",
    "Starts",
    "TrackingWeights",
    "tracking_error",
    "tracking_exponent",
]
