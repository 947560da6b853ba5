"""Training methods: LightningModules that put views, encoder and loss together."""
