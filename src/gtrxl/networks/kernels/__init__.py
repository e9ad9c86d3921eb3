"""Pictures through a ResNet in C++, for CPUs: all sections in one call, their gradient in another.

The library is compiled when a ResNet first sees pictures on a CPU, beside that of the cores and by the same rules
(`gtrxl.cores.kernels`): the same switch, and XLA where it cannot be had.
"""
