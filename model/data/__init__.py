"""What training reads: triplets, candidates, images and texts."""
