"""Encoders of images and sentences, behind two protocols: `Encoder` and `ClipEncoder`.

This package imports `core` and `data`; `features` and all packages above it may import it. It alone imports torch,
transformers, diffusers, open_clip, onnx and onnxruntime, and only when an encoder is made.

Examples:
    >>> from cosmic_tta.encoders import make_clip
    >>> clip = make_clip("mini:clip")  # embedded: nothing is downloaded
    >>> clip.encode_texts(["a photo of a cat.", "a photo of a dog."]).shape
    (2, 128)
"""

from cosmic_tta.encoders.base import ClipEncoder, Encoder, Tokens
from cosmic_tta.encoders.registry import FAMILIES, EncoderFamily, auto_batch, make_clip, make_encoder, make_tower

__all__ = [
    "FAMILIES",
    "ClipEncoder",
    "Encoder",
    "EncoderFamily",
    "Tokens",
    "auto_batch",
    "make_clip",
    "make_encoder",
    "make_tower",
]
