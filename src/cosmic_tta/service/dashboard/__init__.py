"""The dashboard at `/`: its static files, its JSON routes, live events and thumbnails.

Imports the other modules of `service`; `service.app` alone imports it.
"""
