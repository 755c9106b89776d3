"""Live retrievers: systems that answer searches over HTTP while people or simulators search.

`protocol` has the messages, `client` asks a server, `conformance` checks one by its `rules`.
"""
