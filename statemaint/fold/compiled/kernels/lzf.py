"""LZF's two loops, compiled unchanged."""

from statemaint.codec.compression import lzf
from statemaint.fold.compiled.kernels.compiled import compiled

expand = compiled(lzf.expand)
pack = compiled(lzf.pack)
