"""What other packages call the settings of this one, for hints about unknown names."""

# Lower case, without "_" and "-".
_SYNONYMS = {
    "hidden_channels": "hidden hiddendim hiddensize hiddenunits nhidden numhidden nhid dim "
    "embeddim embeddingdim dmodel width channels units hiddenlayersizes",
    "num_layers": "layers nlayers nlayer numhiddenlayers depth numblocks",
    "heads": "nheads nhead numheads numattentionheads attentionheads",
    "epochs": "nepochs numepochs maxepochs epoch numtrainepochs maxiter iterations niter",
    "lr": "learningrate lrrate learningrateinit stepsize eta",
    "weight_decay": "wd l2 l2regularization alpha decayweight",
    "batch_size": "batch bs perdevicetrainbatchsize minibatchsize",
    "dropout": "dropoutrate drop pdrop dropoutprob hiddendropoutprob p",
    "attention_dropout": "attndropout attentiondropoutprob attndrop attentionprobsdropoutprob",
    "seed": "randomstate randomseed rng",
    "patience": "earlystopping earlystoppingpatience niternochange earlystop",
    "validation": "validationfraction valfraction valsize validationsize validationsplit",
    "clip_norm": "maxgradnorm gradclip gradientclip gradientclipval clip",
    "warmup_epochs": "warmup nwarmup",
    "threads": "njobs nthreads numthreads workers numworkers",
    "metric": "scoring metrics evalmetric",
    "size": "numtokens ntokens seqlen sequencelength contextsize tokens",
    "optimizer": "optim solver",
    "precision": "dtype amp fp16 bf16",
    "ffn_channels": "ffndim dimfeedforward intermediatesize feedforward mlpdim",
    "eval_every": "evalsteps evalinterval",
    "device": "accelerator gpu cuda gpus",
}
_MEANT = {word: name for name, words in _SYNONYMS.items() for word in words.split()}


def setting_meant(word: str) -> str | None:
    """Return the setting that scikit-learn, PyG or another package calls so; None if none does.

    Example:
        >>> setting_meant("random_state"), setting_meant("--n-epochs"), setting_meant("colour")
        ('seed', 'epochs', None)
    """
    return _MEANT.get(word.lower().replace("_", "").replace("-", ""))
