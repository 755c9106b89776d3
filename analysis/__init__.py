"""The statistics: DataFrames in, frozen results and figures out. A leaf: imports no other room."""
