"""FISD's six aspects on drawn garments, with two attributes more: badges and a background."""
