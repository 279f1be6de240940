"""Parts that games of hidden roles share: the deal, sealed phases, exact posterior, resampling."""
