"""Bytes to records and back: nothing here opens a file, reads a clock or decides anything.

There is one package for each kind of file; a module that decodes begins with its byte grammar. What
does not follow it raises `CodecError`, whose offset is that of the first such byte.
"""
