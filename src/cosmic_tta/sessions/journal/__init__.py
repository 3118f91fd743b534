"""The append-only journal of a session: its byte format, its reader and its writer.

Imports `core` alone. Only `sessions` and `distributed` import it.
"""
