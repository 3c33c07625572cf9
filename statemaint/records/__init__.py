"""The files below `_statemaint/`: their names and formats, read and written in one place.

Nothing here touches a file of the query. `execute` and `maintain` decide what is recorded, and
what is deleted when.
"""
