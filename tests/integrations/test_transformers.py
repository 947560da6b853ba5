import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-peers")

import rince  # noqa: E402
from rince.errors import UsageError  # noqa: E402
from rince.integrations.transformers import DualEncoderLoss, ImageEncoder  # noqa: E402
from rince.methods.method import width_of  # noqa: E402


class Dual(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(5, 8), nn.Linear(5, 8)

    def forward(self, x, y):
        return {"image_embeds": self.a(x), "text_embeds": self.b(y)}


def contrastive():
    return rince.RINCE(q=0.5, lam="balanced", temperature=0.2, contrast=rince.CrossView(), scale="unit")


def trained(folder, steps, batch):
    g = torch.Generator().manual_seed(0)
    data = [{"x": torch.randn(5, generator=g), "y": torch.randn(5, generator=g)} for _ in range(16)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=batch, gradient_accumulation_steps=steps, max_steps=1,
        optim="sgd", learning_rate=1.0, lr_scheduler_type="constant", max_grad_norm=0, use_cpu=True, report_to=[],
        save_strategy="no", disable_tqdm=True, remove_unused_columns=False, train_sampling_strategy="sequential",
    )  # fmt: skip
    model = Dual()
    func = DualEncoderLoss(contrastive(), gradient_accumulation_steps=steps)
    transformers.Trainer(model=model, args=arguments, train_dataset=data, compute_loss_func=func).train()
    return model, data


@pytest.mark.parametrize("steps", (1, 2))
def test_trainer_step_averages_accumulated_batches(steps, tmp_path):
    model, data = trained(tmp_path, steps, 8)
    slow = Dual()
    loss = 0
    for i in range(steps):
        part = data[8 * i : 8 * i + 8]
        out = slow(*(torch.stack([row[name] for row in part]) for name in "xy"))
        loss = loss + contrastive()(out["image_embeds"], out["text_embeds"]) / steps
    loss.backward()
    for p, q in zip(slow.parameters(), model.parameters(), strict=True):
        assert torch.allclose(p.detach() - p.grad, q.detach(), atol=1e-6)


def test_outputs_are_found_by_name_and_by_number():
    a, b = torch.randn(2, 6, 4)
    expected = contrastive()(a, b)
    assert DualEncoderLoss(contrastive(), 0, 1)((a, b)) == expected
    named = transformers.modeling_outputs.ModelOutput(query=a, passage=b)
    assert DualEncoderLoss(contrastive(), "query", "passage")(named) == expected
    assert DualEncoderLoss(contrastive(), 0, 1)(named) == expected


class Clip(nn.Module):
    """Like CLIP: the Trainer drops ``labels``, which it does not take, and has to ask for a loss."""

    def __init__(self):
        super().__init__()
        self.dual = Dual()

    def forward(self, x, y, return_loss=None):
        out = self.dual(x, y)
        return {"loss": x.sum() * 0 + 99, **out} if return_loss else out


def rows(n, **more):
    g = torch.Generator().manual_seed(0)
    return [{"x": torch.randn(5, generator=g), "y": torch.randn(5, generator=g), **more} for _ in range(n)]


def clip_trainer(folder, func, data, collate=None, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=1, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, **options,
    )  # fmt: skip
    return transformers.Trainer(
        model=Clip(),
        args=arguments,
        train_dataset=data,
        eval_dataset=data,
        data_collator=collate,
        compute_loss_func=func,
    )


def test_trainer_evaluation_uses_the_loss(tmp_path):
    def collate(items):
        return {"return_loss": True, **{name: torch.stack([item[name] for item in items]) for name in "xy"}}

    trainer = clip_trainer(
        tmp_path, DualEncoderLoss(contrastive()), rows(8), collate, label_names=["return_loss"],
        remove_unused_columns=False,
    )  # fmt: skip
    out = Clip().dual(*(torch.stack([row[name] for row in rows(8)]) for name in "xy"))
    expected = contrastive()(out["image_embeds"], out["text_embeds"]).item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_labels_reach_a_loss_that_takes_them(tmp_path):
    seen = []

    def loss(a, b, labels):
        seen.append(labels)
        return rince.InfoNCE(temperature=0.2, contrast=rince.Supervised())(a, b, labels=labels)

    func = DualEncoderLoss(loss, takes_labels=True)
    data = rows(8, labels=torch.tensor(3))
    clip_trainer(tmp_path, func, data, remove_unused_columns=False).train()
    assert seen[0].tolist() == [3] * 8
    with pytest.raises(UsageError, match="remove_unused_columns=False"):
        clip_trainer(tmp_path, func, data).train()


def test_image_models_are_encoders():
    config = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    for pooling in ("mean", "cls", "pooler"):
        encoder = ImageEncoder("vit", pooling, {**config, "image_size": 8, "patch_size": 4})
        assert width_of(encoder) == 16 and encoder(torch.rand(2, 3, 8, 8)).shape == (2, 16)
    encoder = ImageEncoder("resnet", "mean", {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1]})
    assert width_of(encoder) == 12 and encoder(torch.rand(2, 3, 32, 32)).shape == (2, 12)


def test_bad_input_is_named():
    a, b = torch.randn(2, 6, 4)
    with pytest.raises(UsageError, match="the batch has labels"):
        DualEncoderLoss(contrastive())({"image_embeds": a, "text_embeds": b}, torch.zeros(6))
    with pytest.raises(UsageError, match="'text_embeds', only image_embeds"):
        DualEncoderLoss(contrastive())({"image_embeds": a})
    with pytest.raises(UsageError, match="5, only tuple"):
        DualEncoderLoss(contrastive(), 0, 5)((a, b))
    with pytest.raises(UsageError, match=r"labels: .* remove_unused_columns=False"):
        DualEncoderLoss(contrastive(), takes_labels=True)({"image_embeds": a, "text_embeds": b})
    with pytest.raises(UsageError, match="at least 1, got 0"):
        DualEncoderLoss(contrastive(), gradient_accumulation_steps=0)
