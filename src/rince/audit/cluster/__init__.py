"""The audit on a cluster of Dask, and tables that are read where the workers are."""
