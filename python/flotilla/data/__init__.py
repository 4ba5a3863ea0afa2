"""Ways for data to come in: readers, feeders, loaders, data sets."""
