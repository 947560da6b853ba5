"""All image methods: they learn, their parts are what the protocols say, and a resumed run equals one in a piece."""

import warnings

import pytest
import torch

from rince import RINCE, CrossView, InfoNCE, Queue, Supervised, TwoView
from rince.errors import UsageError
from rince.methods.moco import MoCo, MoCoV3
from rince.methods.simclr import SimCLR, SupCon
from rince.views.image import SimCLRViews
from support.crashes import SaveAndStop, Stop
from support.image_methods import Record, fit, make

KINDS = [SimCLR, SupCon, MoCo, MoCoV3]


@pytest.mark.parametrize("kind", KINDS)
def test_training_brings_views_of_an_image_together(kind):
    method = make(kind, InfoNCE(temperature=0.2), **({"momentum": 0.5} if kind in (MoCo, MoCoV3) else {}))
    record = Record()
    trainer = fit(method, epochs=20, callbacks=[record])
    assert trainer.global_step == 80
    if kind is not MoCo:  # whose queue is empty at first
        assert sum(record.losses[-4:]) < sum(record.losses[:4])
    assert trainer.logged_metrics["positive"] > trainer.logged_metrics["negative"] + 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [3, 4])
def test_a_resumed_run_equals_one_in_a_piece_bit_for_bit(kind, at, tmp_path):
    options = {"q_schedule": "linear", "warmup_epochs": 0.5}
    whole = make(kind, **options)
    record = Record()
    fit(whole, callbacks=[record])
    with pytest.raises(Stop):
        fit(make(kind, **options), callbacks=[SaveAndStop(tmp_path / "last.ckpt", at)])
    resumed, second = make(kind, seed=5, **options), Record()  # other weights, which the checkpoint replaces
    fit(resumed, callbacks=[second], ckpt_path=tmp_path / "last.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert record.losses[at:] == second.losses and record.q[at:] == second.q


def test_q_goes_from_its_start_to_the_value_of_the_loss():
    record = Record()
    fit(make(SimCLR, RINCE(q=0.4), q_schedule="linear", q_start=0.01), callbacks=[record])
    assert record.q[0] == pytest.approx(0.01) and record.q[-1] == pytest.approx(0.4)
    assert all(a < b for a, b in zip(record.q, record.q[1:], strict=False))


# Four batches an epoch: with three to a step, the last of an epoch is a step of its own.
@pytest.mark.parametrize(
    "epochs, options, batches",
    [
        (3, {"accumulate_grad_batches": 3}, 12),
        (3, {"accumulate_grad_batches": 8}, 12),
        (3, {"accumulate_grad_batches": 3, "max_steps": 3}, 7),
        (3, {"accumulate_grad_batches": 3, "max_steps": 4}, 8),
        (-1, {"accumulate_grad_batches": 3, "max_steps": 5}, 11),
        (-1, {"max_steps": 6}, 6),
        (3, {"max_steps": 6, "limit_train_batches": 3}, 6),
    ],
)
def test_schedules_end_with_the_last_batch(epochs, options, batches):
    record = Record()
    fit(make(MoCoV3, RINCE(q=0.4), q_schedule="linear", momentum=0.9), epochs, [record], **options)
    assert record.q == pytest.approx([0.01 + 0.39 * i / (batches - 1) for i in range(batches)])
    assert record.momenta[0] == pytest.approx(0.9) and record.momenta[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("epochs, options", [(4, {}), (4, {"max_steps": 7}), (-1, {"max_steps": 7})])
def test_warm_up_length_does_not_depend_on_the_limit(epochs, options):
    record = Record()
    fit(make(SimCLR, warmup_epochs=1, lr_schedule="constant"), epochs, [record], **options)
    assert record.rates[:7] == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01, 0.01])


def test_training_without_end_is_refused():
    with pytest.raises(ValueError, match=r"set trainer\.max_steps"):
        fit(make(SimCLR), epochs=-1)


def test_a_q_schedule_for_a_loss_without_q_is_refused():
    with pytest.raises(ValueError, match="InfoNCE has no q"):
        make(SimCLR, InfoNCE(), q_schedule="linear")


def test_each_method_brings_the_contrast_it_needs():
    for kind, contrast in ((SimCLR, TwoView), (SupCon, TwoView), (MoCo, Queue), (MoCoV3, CrossView)):
        assert isinstance(make(kind).contrast, contrast)
    several = make(SupCon, positives="several")
    assert isinstance(several.contrast, Supervised) and several.pairing == "self"
    assert make(SupCon).pairing == "label" and not make(MoCoV3).contrast.symmetric


def test_a_loss_made_for_another_contrast_is_refused():
    with pytest.raises(UsageError, match=r"TwoView\(\).* CrossView\(symmetric=True\)"):
        make(SimCLR, RINCE(contrast=CrossView()))
    for kind, contrast in ((SupCon, Supervised()), (MoCo, Queue(8, 40)), (MoCoV3, CrossView())):
        with pytest.raises(UsageError, match=f"{kind.__name__} uses the contrast"):
            make(kind, RINCE(contrast=contrast))
    make(SimCLR, RINCE(contrast=TwoView()))
    make(SupCon, RINCE(contrast=Supervised()), positives="several")
    make(MoCoV3, RINCE(contrast=CrossView(symmetric=False)))


def test_methods_can_share_a_loss():
    loss = InfoNCE(temperature=0.2)
    one, other = make(MoCo, loss), make(MoCo, loss)
    fit(one, epochs=1)
    assert int(one.contrast.pushed) == 64 and int(other.contrast.pushed) == 0 and isinstance(loss.contrast, TwoView)


def test_several_positives_train_too():
    record = Record()
    fit(make(SupCon, InfoNCE(temperature=0.5), positives="several"), epochs=6, callbacks=[record])
    assert sum(record.losses[-4:]) < sum(record.losses[:4])


def test_a_loss_of_the_user_is_used_as_it_is():
    class Mine(torch.nn.Module):
        def forward(self, a, b):
            return (a - b).square().mean()

    fit(make(SimCLR, Mine()), epochs=1)


def test_a_collapse_is_noticed():
    method = make(SimCLR, RINCE(), width=0)
    method.encoder.forward = lambda x: torch.ones(len(x), 16) + 0 * method.encoder.layers(x).mean((2, 3))
    with pytest.warns(UserWarning, match="collapsed"):
        fit(method, epochs=2)


def test_one_flat_epoch_is_no_collapse():
    method = make(SimCLR, RINCE(), width=0)
    layers, epochs = method.encoder.forward, []

    def flat_in_the_first_and_third_epoch(x):
        epochs.append(method.current_epoch)
        return layers(x) if method.current_epoch == 1 else torch.ones(len(x), 16) + 0 * layers(x)

    method.encoder.forward = flat_in_the_first_and_third_epoch
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*collapsed.*")
        fit(method, epochs=3)
    assert set(epochs) == {0, 1, 2}


def test_a_loss_that_is_not_finite_stops_with_a_way_out():
    class Broken(torch.nn.Module):
        def forward(self, a, b):
            return a.sum() * torch.nan

    with pytest.raises(ValueError, match="became nan at step 0"):
        fit(make(SimCLR, Broken()), epochs=1)


def test_an_encoder_that_does_not_say_its_width_is_refused():
    with pytest.raises(ValueError, match="attribute 'features'"):
        SimCLR(torch.nn.Linear(2, 2), RINCE(), SimCLRViews(), torch.optim.Adam)


def test_a_learning_rate_in_steps_falls_to_a_tenth_twice():
    record = Record()
    fit(make(SimCLR, lr_schedule="steps"), epochs=5, callbacks=[record])
    assert record.rates == pytest.approx([0.01] * 12 + [0.001] * 4 + [0.0001] * 4)


@pytest.mark.parametrize("batch_norm", ["both_views", "per_view"])
def test_simclr_takes_batch_statistics_over_both_views_or_each(batch_norm):
    method = make(SimCLR, batch_norm=batch_norm)
    sizes = []
    method.encoder.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    fit(method, epochs=1, max_steps=1)
    assert sizes == ([32] if batch_norm == "both_views" else [16, 16])


def test_the_last_layer_of_a_head_may_go_without_bias():
    assert make(SimCLR).head[-1].bias is not None
    assert make(SimCLR, head_bias=False).head[-1].bias is None
