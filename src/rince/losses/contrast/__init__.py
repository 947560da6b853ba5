"""Who is whose positive and negative: from embeddings to the two scores of every anchor."""

from rince.losses.contrast.contrast import Contrast, Scores
from rince.losses.contrast.cross_view import CrossView
from rince.losses.contrast.queue import Queue
from rince.losses.contrast.supervised import Supervised
from rince.losses.contrast.two_view import TwoView

__all__ = ["Contrast", "CrossView", "Queue", "Scores", "Supervised", "TwoView"]
