"""How torch functions, methods and layers treat the batch dimension, as data (documented behaviour of torch 2)."""

from __future__ import annotations

# Tensor methods and torch / torch.nn.functional functions that map a sample-first tensor to a sample-first tensor,
# whatever their other arguments are.
ROW_WISE = frozenset(
    """
    float double half bfloat16 long int short byte char bool type type_as to cuda cpu detach clone contiguous numpy
    abs neg exp log log1p log2 log10 expm1 sqrt rsqrt reciprocal sigmoid tanh relu relu_ elu selu celu gelu silu mish
    leaky_relu leaky_relu_ prelu rrelu softplus softsign logsigmoid hardtanh hardswish hardsigmoid tanhshrink threshold
    hardshrink softshrink relu6 exp2 asin acos atan sinh cosh asinh acosh atanh arcsin arccos arctan erfc erfinv expit
    lgamma gammaln digamma psi sinc logit entr ndtr log_ndtr ndtri i0 i0e i1 i1e absolute negative positive angle
    sin cos tan erf floor ceil round sign trunc frac clamp clamp_ clip clamp_min clamp_max nan_to_num
    pow square float_power eq ne gt lt ge le logical_not logical_and logical_or logical_xor isclose where
    view_as expand_as reshape_as masked_fill masked_fill_ fill_ normal_ uniform_ zero_ bernoulli bernoulli_ random_
    requires_grad_ data retain_grad as_tensor from_numpy tensor tolist lerp addcmul addcdiv astype pin_memory
    dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear embedding one_hot unfold
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    batch_norm layer_norm instance_norm group_norm local_response_norm interpolate upsample pad
    pixel_shuffle pixel_unshuffle grid_sample affine_grid rms_norm
    """.split()
)

# What makes a tensor of numbers that it is given.
OF_NUMBERS = frozenset("tensor as_tensor new_tensor".split())
# Methods that make a tensor of a size that they are told.
NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new"})
# What fills a tensor with random numbers.
FILLS = frozenset("normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_".split())
# What tells of which kind a tensor is, and nothing of the numbers in it; and with that how large it is.
OF_KIND = frozenset("dtype device requires_grad is_leaf is_cuda is_floating_point".split())
ABOUT = OF_KIND | frozenset("shape size dim ndim numel nelement".split())
# What gives no gradients on: methods and attributes of tensors, functions of torch.
NO_GRADIENT = ABOUT | frozenset(
    """
    detach detach_ item data numpy tolist argmax argmin argsort indices long int bool byte sign round floor ceil nonzero
    multinomial bernoulli eq ne gt ge lt le
    """.split()
)

# Creation functions whose result has the rows of their argument.
LIKE = frozenset("zeros_like ones_like full_like rand_like randn_like randint_like empty_like".split())
# Creation functions whose result has as many rows as their first size says.
SIZED = frozenset("zeros ones full rand randn randint empty".split())
# Those of them that are told nothing but sizes.
FILLED = frozenset("zeros ones rand randn empty".split())

# Elementwise functions of two tensors.
ELEMENTWISE = frozenset(
    "add sub subtract mul multiply div divide true_divide maximum minimum fmod remainder atan2 "
    "add_ sub_ mul_ div_ logaddexp logaddexp2 xlogy xlog1py hypot copysign heaviside bucketize searchsorted complex "
    "polar fmax fmin".split()
)

# Those of them that are neither a sum, a difference, a product nor a quotient, and others of two tensors.
BENDING = frozenset(
    "maximum minimum max min fmax fmin fmod remainder atan2 logaddexp logaddexp2 xlogy hypot copysign".split()
)

# Functions of two tensors that are broadcast along each other.
COMPARES = ELEMENTWISE | frozenset(
    "eq ne gt lt ge le logical_and logical_or logical_xor isclose where pow cosine_similarity pairwise_distance".split()
)
# Methods that put the elements of a tensor into another order or shape.
REORDERS = frozenset("view reshape flatten unsqueeze squeeze roll flip expand repeat".split())

# What gives the larger or smaller of two numbers.
EXTREMES = frozenset("max min maximum minimum fmax fmin".split())
# Functions that are no straight line: of a mean over samples they make something that is none.
CURVED = frozenset(
    "abs exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal square pow sigmoid tanh relu elu softplus logsigmoid "
    "sin cos atan arctan sinh cosh erf selu celu gelu silu mish leaky_relu softsign hardtanh hardsigmoid hardswish "
    "clamp clamp_min clamp_max clip".split()
)

# Functions that reduce over dimensions: row-wise if a dimension other than the first is given.
REDUCES = {
    "mean": "mean",
    "nanmean": "weighted",
    "sum": "sum",
    "nansum": "sum",
    "max": "pair",
    "min": "pair",
    "median": "pair",
    "mode": "pair",
    "argmax": "one",
    "argmin": "one",
    "amax": "one",
    "amin": "one",
    "logsumexp": "one",
    "norm": "one",
    "std": "one",
    "var": "one",
    "prod": "one",
    "all": "one",
    "any": "one",
    "softmax": "same",
    "log_softmax": "same",
    "softmin": "same",
    "cumsum": "same",
    "cumprod": "same",
    "logcumsumexp": "same",
    "cummax": "pair",
    "cummin": "pair",
    "diff": "same",
    "normalize": "same",
    "std_mean": "pair",
    "var_mean": "pair",
    "aminmax": "pair",
    "quantile": "one",
    "nanquantile": "one",
    "nanmedian": "pair",
    "vector_norm": "one",
    "argsort": "same",
    "sort": "pair",
    "topk": "pair",
    "gumbel_softmax": "same",
    "msort": "same",
    "cosine_similarity": "one",
    "pairwise_distance": "rows",
    "glu": "same",
    "flip": "same",
    "flipud": "same",
    "roll": "same",
}
# Of these, those that of several shares of the samples do not give that of all of them, in any simple way.
STATISTICS = frozenset(
    "median nanmedian mode max min amax amin aminmax logsumexp norm vector_norm std var std_mean var_mean prod "
    "quantile nanquantile softmax log_softmax softmin normalize diff cumsum cumprod logcumsumexp cummax cummin sort "
    "msort topk cosine_similarity".split()
)
# Where the dimension stands among the positional arguments after the tensor(s).
DIMENSION_PLACE = {
    **dict.fromkeys(("topk", "norm", "vector_norm", "normalize", "quantile", "nanquantile", "diff", "roll"), 1),
    "cosine_similarity": 1,
    "gumbel_softmax": 3,
}
# What the dimension is if none is given; missing here: the whole tensor.
DIMENSION_DEFAULT = {
    **dict.fromkeys(("sort", "topk", "argsort", "glu", "gumbel_softmax", "diff"), -1),
    **dict.fromkeys(("cosine_similarity", "normalize"), 1),
    "msort": 0,
}
# What tells or takes the greatest of some numbers, or sets each of them in relation to the others.
SELECTS = STATISTICS | frozenset({"argmax", "argmin", "argsort", "kthvalue", "gumbel_softmax"})
# What puts the rows into another order, if it is told dimension 0 or none at all.
TURNS = frozenset({"flip", "roll", "flipud"})
# What brings every row of a tensor together with every other row of it, or of another one.
PAIRS = frozenset("pdist outer ger kron cartesian_prod combinations cov corrcoef meshgrid".split())
# What tells the places of all pairs of so many.
PLACES_OF_PAIRS = frozenset({"triu_indices", "tril_indices"})
# What has a tensor several times.
SPREADS = frozenset({"repeat", "tile", "repeat_interleave"})
# What adds up rows by the places that they are told, which may be classes.
ADDS_UP = frozenset("index_add scatter_add scatter_reduce index_reduce".split())
# What adds the product of the last two matrices that it is given to another one.
PRODUCTS_ADDED = frozenset({"addmm", "addmm_"})
# Functions of which it depends on the number of dimensions whether samples meet in them.
OF_DIMENSIONS = (
    REDUCES.keys()
    | SPREADS
    | frozenset("unsqueeze cdist inner expand scaled_dot_product_attention view reshape".split())
)

# Losses of torch.nn.functional; True: the mean is over classes' weights or kept targets if such an argument is given.
FUNCTIONAL_LOSSES = {
    "cross_entropy": True,
    "nll_loss": True,
    "binary_cross_entropy": False,
    "binary_cross_entropy_with_logits": False,
    "mse_loss": False,
    "l1_loss": False,
    "smooth_l1_loss": False,
    "huber_loss": False,
    "kl_div": False,
    "poisson_nll_loss": False,
    "gaussian_nll_loss": False,
    "hinge_embedding_loss": False,
    "cosine_embedding_loss": False,
    "margin_ranking_loss": False,
    "multi_margin_loss": False,
    "multilabel_margin_loss": False,
    "multilabel_soft_margin_loss": False,
    "soft_margin_loss": False,
    "triplet_margin_loss": False,
    "ctc_loss": False,
}
# Losses that broadcast the two tensors which they compare.
ELEMENTWISE_LOSSES = frozenset(
    "mse_loss l1_loss smooth_l1_loss huber_loss kl_div MSELoss L1Loss SmoothL1Loss HuberLoss KLDivLoss".split()
)
# Losses of two tensors of the same form.
OF_ONE_FORM = frozenset("binary_cross_entropy binary_cross_entropy_with_logits BCELoss BCEWithLogitsLoss".split())
# Losses that are a mean over the samples, each by its own length, however their targets are put together.
OF_EACH_SAMPLE = frozenset({"CTCLoss", "ctc_loss"})
WEIGHTED_LOSSES = frozenset({"CrossEntropyLoss", "NLLLoss", "NLLLoss2d"})
IGNORING = frozenset({"cross_entropy", "nll_loss"})  # the functions that leave out targets of -100

# The parameters of losses, by position: of classes all, of functions those after input and target.
_AVERAGES = ("size_average", "reduce", "reduction")
_CLASSES = ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
_BINARY = ("weight", *_AVERAGES, "pos_weight")
LOSS_PARAMETERS = {
    **dict.fromkeys(("cross_entropy", "nll_loss", *WEIGHTED_LOSSES), _CLASSES),
    **dict.fromkeys(
        ("binary_cross_entropy", "binary_cross_entropy_with_logits", "BCELoss", "BCEWithLogitsLoss"), _BINARY
    ),
    **dict.fromkeys(("mse_loss", "l1_loss", "soft_margin_loss", "MSELoss", "L1Loss", "SoftMarginLoss"), _AVERAGES),
    **dict.fromkeys(("smooth_l1_loss", "SmoothL1Loss"), (*_AVERAGES, "beta")),
    **dict.fromkeys(("kl_div", "KLDivLoss"), (*_AVERAGES, "log_target")),
    **dict.fromkeys(("huber_loss", "HuberLoss"), ("reduction", "delta")),
}

# Layers of torch.nn that keep the first dimension as it is.
ROW_WISE_LAYERS = frozenset(
    """
    Linear Bilinear LazyLinear Identity Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv2d
    BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm GroupNorm
    LocalResponseNorm RMSNorm Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout
    ReLU ReLU6 LeakyReLU PReLU RReLU ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Hardtanh Hardswish Hardsigmoid
    Softplus Softsign Tanhshrink Threshold Softmax2d
    MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d
    AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d FractionalMaxPool2d
    MaxUnpool1d MaxUnpool2d MaxUnpool3d
    Embedding Upsample UpsamplingNearest2d UpsamplingBilinear2d PixelShuffle PixelUnshuffle
    ZeroPad2d ConstantPad1d ConstantPad2d ReflectionPad1d ReflectionPad2d ReplicationPad2d ReflectionPad3d
    """.split()
)
# Layers that may return where the greatest values were, too, and where among the arguments they are told to.
INDICES = {"MaxPool": 4, "AdaptiveMaxPool": 1, "FractionalMaxPool": 3}
# Layers that work along a dimension: the name of their first argument, what it is if it is not given, and whether they
# compare the samples with each other where it is the first.
DIMENSIONED_LAYERS: dict[str, tuple[str, int | None, bool]] = {
    "Flatten": ("start_dim", 1, False),
    "Unflatten": ("dim", None, False),
    "CosineSimilarity": ("dim", 1, True),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Softmin"), ("dim", None, True)),
}
RECURRENT = frozenset({"RNN", "LSTM", "GRU"})
# Layers in which the steps of a sequence meet, which dimension 0 runs over unless they are made with batch_first.
SEQUENTIAL = RECURRENT | {
    "MultiheadAttention",
    "Transformer",
    "TransformerEncoder",
    "TransformerDecoder",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
}
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
BATCH_NORM = frozenset(
    {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d"}
)

# What every torch.nn.Module, or recurrent one, offers besides its forward pass; none of it runs layers.
MODULE_METHODS = frozenset(
    """
    add_module apply bfloat16 buffers children compile cpu cuda double eval extra_repr flatten_parameters float
    get_buffer get_extra_state get_parameter get_submodule half load_state_dict modules named_buffers named_children
    named_modules named_parameters parameters register_backward_hook register_buffer register_forward_hook
    register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_load_state_dict_post_hook register_module register_parameter requires_grad_ set_extra_state
    share_memory state_dict to train type zero_grad
    """.split()
)

_IN_PLACE = ROW_WISE | ELEMENTWISE | CURVED | ADDS_UP | frozenset("scatter squeeze unsqueeze t copy".split())


def out_of_place(name: str) -> str:
    """What a function or a method that changes its tensor where it is would be called if it made another one."""
    plain = name.removesuffix("_")
    return plain if plain != name and plain in _IN_PLACE else name
