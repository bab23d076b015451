"""Binary networks as files of 1-bit weights, and engines that run them."""
