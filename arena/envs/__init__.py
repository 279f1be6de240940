"""Games behind the interfaces of Gymnasium, PettingZoo and Stable-Baselines3."""
