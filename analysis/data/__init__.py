"""What the statistics read: releases, scores files, metrics and parts of a split."""
