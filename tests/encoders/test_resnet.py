import pytest
import torch

from rince.encoders.images import ResNet


def torchvision_names(depth):
    """State dict of torchvision's ResNet, written down from its documentation of the architecture."""
    counts, bottleneck = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth], depth == 50
    norm = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    names = ["conv1.weight", *(f"bn1.{n}" for n in norm)]
    for stage, count in enumerate(counts, 1):
        for block in range(count):
            at = f"layer{stage}.{block}"
            for i in range(1, 4 if bottleneck else 3):
                names += [f"{at}.conv{i}.weight", *(f"{at}.bn{i}.{n}" for n in norm)]
            if block == 0 and (stage > 1 or bottleneck):
                names += [f"{at}.downsample.0.weight", *(f"{at}.downsample.1.{n}" for n in norm)]
    return set(names)


# Learnable parameters of torchvision's models, with its classifier for 1,000 classes.
@pytest.mark.parametrize(
    ("depth", "width", "parameters"), [(18, 512, 11689512), (34, 512, 21797672), (50, 2048, 25557032)]
)
def test_names_and_sizes_are_torchvisions(depth, width, parameters):
    with torch.device("meta"):
        encoder = ResNet(depth)
    assert set(encoder.state_dict()) == torchvision_names(depth)
    assert encoder.features == width
    assert sum(p.numel() for p in encoder.parameters()) + 1000 * width + 1000 == parameters


def test_torchvision_checkpoint_loads_without_its_classifier():
    source, target = ResNet(18), ResNet(18)
    checkpoint = {**source.state_dict(), "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    target.load_state_dict(checkpoint)
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))


def test_the_cifar_stem_keeps_the_resolution():
    encoder = ResNet(18, stem="cifar").eval()
    with torch.no_grad():
        images = torch.rand(2, 3, 32, 32)
        assert encoder.maxpool(encoder.conv1(images)).shape == (2, 64, 32, 32)
        assert encoder(images).shape == (2, 512)


def test_a_depth_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="18, 34, 50, got 20"):
        ResNet(20)
