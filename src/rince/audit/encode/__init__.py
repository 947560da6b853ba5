"""From raw texts, pictures and sounds to rows of numbers that an audit can read."""

from rince.audit.encode.choose import encoder_for
from rince.audit.encode.encoder import Encoder
from rince.audit.encode.run import Encoded, encoded

__all__ = ["Encoded", "Encoder", "encoded", "encoder_for"]
