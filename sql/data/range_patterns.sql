-- @view     range_patterns
-- @summary  What ranges on the host mean, by their names: phases of training, and operations of FSDP.
-- @column   purpose VARCHAR dim - | phase or fsdp.
-- @column   pattern VARCHAR dim - | Pattern of LIKE for the name of a range or operator.
-- @column   label VARCHAR value - | Phase, or operation of FSDP. forward is the whole of a forward, forward_part something that belongs to one, backward_end what autograd runs when its graph is done.
-- @column   library VARCHAR value - | Where ranges of this name come from.
-- @caveat   Of the patterns of one purpose that a name matches, the longest counts.
-- @source   metrics 2.H; the ranges that PyTorch 2.4 to 2.15 records in torch.autograd, torch.optim, torch.distributed.fsdp and torch.nn.parallel
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
        ('phase', 'FSDP::root_post_backward_callback%', 'backward_end', 'FSDP2'),
        ('phase', 'FSDP::finalize_backward%', 'backward_end', 'FSDP2'),
        ('phase', 'torch.distributed.ddp.reducer::copy_bucket_to_grad%', 'backward_end', 'DDP'),
        ('phase', '## forward ##', 'forward', 'torchrec'),
        ('phase', 'DistributedDataParallel.forward', 'forward', 'DDP'),
        ('phase', 'FullyShardedDataParallel.forward', 'forward', 'FSDP1'),
        ('phase', 'FSDP::root_pre_forward%', 'forward_part', 'FSDP2'),
        ('phase', 'FSDP::pre_forward%', 'forward_part', 'FSDP2'),
        ('phase', 'FSDP::post_forward%', 'forward_part', 'FSDP2'),
        ('phase', 'FSDP::forward_prefetch%', 'forward_part', 'FSDP2'),
        ('phase', 'FSDP::cast_forward%', 'forward_part', 'FSDP2'),
        ('fsdp', 'FSDP::%', 'other', 'FSDP2'),
        ('fsdp', 'fsdp::%', 'other', 'FSDP2'),
        ('fsdp', 'FSDP::all_gather%', 'all_gather', 'FSDP2'),
        ('fsdp', 'FSDP::all_gather_copy_in%', 'all_gather_copy_in', 'FSDP2'),
        ('fsdp', 'fsdp::all_gather_copy_in', 'all_gather_copy_in', 'FSDP2'),
        ('fsdp', 'FSDP::all_gather_copy_out%', 'all_gather_copy_out', 'FSDP2'),
        ('fsdp', 'fsdp::split_with_sizes_copy', 'all_gather_copy_out', 'FSDP2'),
        ('fsdp', 'FSDP::reduce_scatter%', 'reduce_scatter', 'FSDP2'),
        ('fsdp', 'FSDP::post_backward_reduce%', 'reduce_scatter', 'FSDP2'),
        ('fsdp', 'fsdp::chunk_cat%', 'reduce_scatter_copy_in', 'FSDP2'),
        ('fsdp', 'FSDP::reshard%', 'reshard', 'FSDP2'),
        ('fsdp', 'FSDP::post_backward_reshard%', 'reshard', 'FSDP2'),
        ('fsdp', 'FSDP::forward_prefetch%', 'prefetch', 'FSDP2'),
        ('fsdp', 'FSDP::backward_prefetch%', 'prefetch', 'FSDP2'),
        ('fsdp', 'FSDP::pre_forward%', 'pre_forward', 'FSDP2'),
        ('fsdp', 'FSDP::root_pre_forward%', 'pre_forward', 'FSDP2'),
        ('fsdp', 'FSDP::post_forward%', 'post_forward', 'FSDP2'),
        ('fsdp', 'FSDP::pre_backward%', 'pre_backward', 'FSDP2'),
        ('fsdp', 'FSDP::post_backward%', 'post_backward', 'FSDP2'),
        ('fsdp', 'FSDP::root_post_backward%', 'post_backward', 'FSDP2'),
        ('fsdp', 'FSDP::finalize_backward%', 'post_backward', 'FSDP2'),
        ('fsdp', 'FSDP::post_backward_accumulate%', 'accumulate', 'FSDP2'),
        ('fsdp', 'FSDP::post_backward_rs_wait%', 'wait', 'FSDP2'),
        ('fsdp', 'FullyShardedDataParallel.rate_limiter', 'wait', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._to_kwargs', 'pre_forward', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._root_pre_forward', 'pre_forward', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._pre_forward', 'pre_forward', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._post_forward', 'post_forward', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._pre_backward_hook', 'pre_backward', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._post_backward_hook', 'post_backward', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel._post_backward_hook_reshard_only', 'reshard', 'FSDP1'),
        ('fsdp', 'FullyShardedDataParallel.%_prefetch', 'prefetch', 'FSDP1')
) AS patterns (purpose, pattern, label, library)
