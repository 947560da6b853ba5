"""The audit over shards, in this process or on a Dask cluster."""
