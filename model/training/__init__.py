"""What is around the loop of `model.train`: the run, its processes, its folder, who follows it."""
