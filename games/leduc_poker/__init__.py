"""Leduc hold'em: poker with six cards and two rounds of betting."""
