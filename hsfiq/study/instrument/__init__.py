"""The survey instrument in a study's own words: what its question page asks."""
