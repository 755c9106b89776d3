"""The inputs of the statistics: releases, scores files, metrics and parts of a split."""
