"""Laws that hold in every world."""
