"""Who is whose positive and negative: from embeddings to the two scores of every anchor."""

from rince.losses.contrast.contrast import Contrast
from rince.losses.contrast.cross_view import CrossView
from rince.losses.contrast.queue import Queue
from rince.losses.contrast.scores import Objective, Scores, Second
from rince.losses.contrast.supervised import Supervised
from rince.losses.contrast.two_view import TwoView

__all__ = ["Contrast", "CrossView", "Objective", "Queue", "Scores", "Second", "Supervised", "TwoView"]
