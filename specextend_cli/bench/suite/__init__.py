"""`bench --suite gpu`: kernels, steps and the embedded pair on a GPU, in one command of a few minutes, offline.

Needs torch, transformers, safetensors, numpy and triton. Without a GPU it is a rehearsal: the same code at tiny sizes,
the kernels in Triton's interpreter; every table says that its figures are no GPU's.
"""
