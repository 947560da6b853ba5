"""What loaders ask of a trainer."""

from types import SimpleNamespace


class FakeTrainer:
    global_rank, world_size, limit_train_batches = 0, 1, 1.0

    def __init__(self, seen=0):
        self.lightning_module = SimpleNamespace(batches_seen=lambda: seen)
