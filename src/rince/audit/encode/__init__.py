"""From raw texts, images and audio to rows of numbers that an audit can read."""

from rince.audit.encode.encoders import Encoder, encoder_for
from rince.audit.encode.run import Encoded, encoded

__all__ = ["Encoded", "Encoder", "encoded", "encoder_for"]
