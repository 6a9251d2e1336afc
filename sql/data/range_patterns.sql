-- @view     range_patterns
-- @summary  What ranges on the host mean, by their names: phases of training, and operations of FSDP.
-- @column   purpose VARCHAR dim - | phase or fsdp.
-- @column   pattern VARCHAR dim - | Pattern of LIKE for the name of a range or operator.
-- @column   label VARCHAR value - | Phase, or operation of FSDP.
-- @column   library VARCHAR value - | Where ranges of this name come from.
-- @caveat   Of the patterns of one purpose that a name matches, the longest counts.
-- @source   metrics 2.H; record_function in torch.profiler, torch.autograd, torch.optim and torch.distributed.fsdp
SELECT purpose, pattern, label, library
FROM (
    VALUES
        ('phase', 'Optimizer.step#%', 'optimizer', 'torch.optim'),
        ('phase', '## optimizer ##', 'optimizer', 'torchrec'),
        ('phase', 'Optimizer.zero_grad#%', 'zero_grad', 'torch.optim'),
        ('phase', '## zero_grad ##', 'zero_grad', 'torchrec'),
        ('phase', 'enumerate(DataLoader)#%', 'data_loading', 'torch.utils.data'),
        ('phase', '## backward ##', 'backward', 'torchrec'),
        ('phase', 'autograd::engine::%', 'backward', 'torch.autograd'),
        ('phase', 'torch::autograd::%', 'backward', 'torch.autograd'),
        ('phase', '%Backward', 'backward', 'torch.autograd'),
        ('phase', '%Backward_', 'backward', 'torch.autograd'),
        ('phase', '%Backward__', 'backward', 'torch.autograd'),
        ('phase', '## forward ##', 'forward', 'torchrec'),
        ('phase', 'DistributedDataParallel.forward', 'forward', 'torch.nn.parallel'),
        ('phase', 'FullyShardedDataParallel.forward', 'forward', 'torch.distributed.fsdp (FSDP1)'),
        ('fsdp', 'FSDP::all\_gather%', 'all_gather', 'torch.distributed.fsdp (FSDP2)'),
        ('fsdp', 'FSDP::all\_gather\_copy\_in%', 'all_gather_copy_in', 'torch.distributed.fsdp (FSDP2)'),
        ('fsdp', 'FSDP::all\_gather\_copy\_out%', 'all_gather_copy_out', 'torch.distributed.fsdp (FSDP2)')
) AS patterns (purpose, pattern, label, library)
