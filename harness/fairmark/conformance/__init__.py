"""The plugin conformance kit: short real runs of a system under test, and what they must show.

`exercise` drives, `life` watches the calls around the queries, the modules ``*_checks`` judge what came out.
"""
