"""Who is whose positive and negative: from embeddings to the two scores of every anchor."""

from rince.contrast.contrast import Contrast, Scores
from rince.contrast.cross_view import CrossView
from rince.contrast.queue import Queue
from rince.contrast.supervised import Supervised
from rince.contrast.two_view import TwoView

__all__ = ["Contrast", "CrossView", "Queue", "Scores", "Supervised", "TwoView"]
