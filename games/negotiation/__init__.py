"""Negotiation (deal or no deal): divide items of private value by offers and talk."""
