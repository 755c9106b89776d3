"""The statistics: DataFrames in, frozen results and figures out. A leaf that imports no other room."""
