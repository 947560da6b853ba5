"""Two views of an image, clip, sound or graph, on whole batches."""
