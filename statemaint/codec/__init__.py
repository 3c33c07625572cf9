"""Bytes to records and back: nothing here opens a file, reads a clock or decides anything.

One room for each kind of file; a module that decodes opens with its byte grammar.
"""
