import torch

import rince
from rince.losses.named import named_loss


def test_a_loss_from_plain_values_is_the_loss():
    z1, z2 = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    ratio = {"class_path": "rince.DensityRatio", "init_args": {"r": 2.5}}
    ours = named_loss("RINCE", {"q": 0.1, "lam": ratio, "scale": "unit"}, 0.2, rince.CrossView())
    assert torch.equal(
        ours(z1, z2), rince.RINCE(0.1, rince.DensityRatio(2.5), 0.2, rince.CrossView(), scale="unit")(z1, z2)
    )
    assert torch.equal(named_loss("GCE", {"q": 1.0}, 0.3)(z1, z2), rince.GCE(1, 0.3)(z1, z2))
