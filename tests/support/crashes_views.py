"""A transform of a user's that draws from numpy's and Python's own generators."""

import random

import numpy as np
import torch


def jitter(image):
    """(height, width, channels) bytes to (channels, height, width) floats."""
    noisy = image.astype(np.float32) / 255 + np.random.normal(0, 0.1, image.shape) + random.random()  # noqa: NPY002
    return torch.from_numpy(noisy).float().permute(2, 0, 1)
