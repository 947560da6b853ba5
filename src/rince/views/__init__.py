"""Views of images, clips, sounds and graphs, over whole batches."""
