"""`bench --suite gpu`: everything that is to be known about a GPU, in one command of a few minutes, without a network.

Needs torch, transformers, safetensors and numpy, and triton for its kernels. Without a GPU it rehearses: the same code
at tiny sizes, the kernels in Triton's interpreter; its figures are then no GPU's, and every table says so.
"""
