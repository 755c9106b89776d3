"""What every run needs: processes, random generators, prefetching and diagnosis."""
