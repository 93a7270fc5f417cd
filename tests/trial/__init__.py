"""Each fault that a hard trial of perdure found, by its number: nothing twice, nothing stuck, nothing silent."""
