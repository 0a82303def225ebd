"""Every way to share work among ranks, written from scratch to be read; production code uses PyTorch's own.

A room for each idea, in the order of the lessons; the first lines of a room say what is in it and where to begin:

    collectives   lesson 02   all-reduce and its family, from messages between two ranks
    data          03, 04      nn.DataParallel taken apart; DistributedDataParallel and what belongs to it
    sharded       05          parameters, gradients and optimizer states cut among data-parallel ranks
    model         06          a model cut between its layers, over devices or ranks
    pipeline      07          any schedule of micro-batches, executed
    tensor        08          matrices cut among ranks
    mesh          09          several of these at once
    context       10          a sequence cut among ranks
    experts       10          layers of which each token uses a few
    jobs          12          a run of training that goes on on another number of ranks

Names are imported from the rooms, as in ``from course_lib.parallel.data import DistributedDataParallel``.
"""
