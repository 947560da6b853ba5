"""From raw texts, images and audio to rows of numbers that an audit can read."""

from rince.audit.encode.encoders import Encoder, encoder_for
from rince.audit.encode.run import Encoded, encoded
from rince.audit.encode.shards import EncodedShards, encode_shards

__all__ = ["Encoded", "EncodedShards", "Encoder", "encode_shards", "encoded", "encoder_for"]
