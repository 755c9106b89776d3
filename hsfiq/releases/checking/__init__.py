"""Verifying a release folder: what of it is wrong, and in which row.

`files` compares the files with the manifest, `values` each table with its description, `lines` the
JSON lines with the Parquet files, `references` what tables say of each other, `counts` the
manifest's figures and `parts` the split. `verify` runs them. No table is in memory as a whole: rows
come in batches, and ids are kept in a temporary SQLite file.
"""
