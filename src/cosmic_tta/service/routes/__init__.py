"""HTTP routes by resource: streams, predictions, learning, snapshots, operations. Handlers only translate.

Imports the other modules of `service`; `service.app` and `service.dashboard` import it.
"""
