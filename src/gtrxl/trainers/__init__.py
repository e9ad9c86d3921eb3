"""The cores inside other people's trainers, each by its own conventions.

    gtrxl.trainers.sb3        a policy for sb3-contrib's RecurrentPPO, and GTrXLPPO      pip install 'gtrxl[sb3]'
    gtrxl.trainers.torchrl    a TensorDict module                                        pip install 'gtrxl[torchrl]'
    gtrxl.trainers.rllib      an RLModule of the new stack                               pip install 'gtrxl[rllib]'
    gtrxl.trainers.flax       the JAX cores as linen and nnx modules                     pip install 'gtrxl[flax]'

None is imported by this package: each is one import of yours.
"""
