"""The provider wire formats, on recorded bytes."""
