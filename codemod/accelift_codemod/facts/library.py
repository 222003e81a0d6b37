"""What library functions return, as data. Only public, documented behaviour is listed.

A name maps to a role; a name ending in `.*` covers every class of that module (a capitalised name).
"""

from __future__ import annotations

from functools import lru_cache

from accelift_codemod.facts.values import Role

_ROLES: dict[str, Role] = {
    # optimizers
    "torch.optim.*": Role.OPTIMIZER,
    "apex.optimizers.*": Role.OPTIMIZER,
    "bitsandbytes.optim.*": Role.OPTIMIZER,
    "torch_optimizer.*": Role.OPTIMIZER,
    "timm.optim.create_optimizer": Role.OPTIMIZER,
    "timm.optim.create_optimizer_v2": Role.OPTIMIZER,
    "transformers.AdamW": Role.OPTIMIZER,
    "transformers.Adafactor": Role.OPTIMIZER,
    "pytorch_pretrained_bert.BertAdam": Role.OPTIMIZER,
    "pytorch_pretrained_bert.OpenAIAdam": Role.OPTIMIZER,
    "adabelief_pytorch.AdaBelief": Role.OPTIMIZER,
    "lion_pytorch.Lion": Role.OPTIMIZER,
    # schedulers
    "torch.optim.lr_scheduler.*": Role.SCHEDULER,
    "transformers.get_scheduler": Role.SCHEDULER,
    "transformers.get_constant_schedule": Role.SCHEDULER,
    "transformers.get_constant_schedule_with_warmup": Role.SCHEDULER,
    "transformers.get_linear_schedule_with_warmup": Role.SCHEDULER,
    "transformers.get_cosine_schedule_with_warmup": Role.SCHEDULER,
    "transformers.get_cosine_with_hard_restarts_schedule_with_warmup": Role.SCHEDULER,
    "transformers.get_polynomial_decay_schedule_with_warmup": Role.SCHEDULER,
    "transformers.get_inverse_sqrt_schedule": Role.SCHEDULER,
    # as they were called in pytorch_transformers
    "transformers.ConstantLRSchedule": Role.SCHEDULER,
    "transformers.WarmupConstantSchedule": Role.SCHEDULER,
    "transformers.WarmupLinearSchedule": Role.SCHEDULER,
    "transformers.WarmupCosineSchedule": Role.SCHEDULER,
    "transformers.WarmupCosineWithHardRestartsSchedule": Role.SCHEDULER,
    # loaders
    "torch.utils.data.DataLoader": Role.LOADER,
    "torch.utils.data.dataloader.DataLoader": Role.LOADER,
    "torch_geometric.loader.DataLoader": Role.LOADER,
    "torch_geometric.data.DataLoader": Role.LOADER,
    "torch_geometric.loader.DenseDataLoader": Role.LOADER,
    "torch_geometric.data.DenseDataLoader": Role.LOADER,
    "monai.data.DataLoader": Role.LOADER,
    # datasets
    "torch_geometric.datasets.*": Role.DATASET,
    "torch.utils.data.TensorDataset": Role.DATASET,
    "torch.utils.data.ConcatDataset": Role.DATASET,
    "torch.utils.data.Subset": Role.DATASET,
    "torch.utils.data.Dataset": Role.DATASET,
    "torch.utils.data.IterableDataset": Role.DATASET,
    "torchvision.datasets.*": Role.DATASET,
    "torchaudio.datasets.*": Role.DATASET,
    # modules
    "torch.nn.*": Role.MODEL,
    "torch.nn.modules.*": Role.MODEL,
    "timm.create_model": Role.MODEL,
    "timm.models.create_model": Role.MODEL,
    "torch.hub.load": Role.MODEL,
    "torchvision.models.get_model": Role.MODEL,
    # the rest
    "torch.amp.GradScaler": Role.SCALER,
    "torch.cuda.amp.GradScaler": Role.SCALER,
    "torch.amp.grad_scaler.GradScaler": Role.SCALER,
    "torch.utils.tensorboard.SummaryWriter": Role.WRITER,
    "torch.utils.tensorboard.writer.SummaryWriter": Role.WRITER,
    "tensorboardX.SummaryWriter": Role.WRITER,
    "tensorboardX.writer.SummaryWriter": Role.WRITER,
    "tensorboard_logger.Logger": Role.WRITER,
    "tensorflow.summary.FileWriter": Role.WRITER,
    "tensorflow.compat.v1.summary.FileWriter": Role.WRITER,
    "tensorflow.train.SummaryWriter": Role.WRITER,
    "tensorflow.summary.create_file_writer": Role.WRITER,
    "visdom.Visdom": Role.WRITER,
    "torch.device": Role.DEVICE,
    "torch.accelerator.current_accelerator": Role.DEVICE,
}

# Autocast, by its names, and the names of its arguments.
AUTOCAST = {
    **dict.fromkeys(
        ("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"),
        ("device_type", "dtype", "enabled"),
    ),
    **dict.fromkeys(
        (f"torch.{kind}.amp.{module}autocast" for kind in ("cuda", "cpu") for module in ("", "autocast_mode.")),
        ("enabled", "dtype"),
    ),
}

# Factories of torchvision.models return modules; so do from_pretrained and from_config of transformers.
_MODEL_FACTORIES = ("torchvision.models.", "segmentation_models_pytorch.", "efficientnet_pytorch.")
_MODEL_METHODS = (".from_pretrained", ".from_config", ".from_name")

# Methods of nn.Module that return the module itself.
RETURNS_SELF = frozenset(
    "to cuda cpu xpu ipu train eval float half double bfloat16 type apply requires_grad_ share_memory to_empty".split()
)

# Callables that change what they are handed and return it: the names of these arguments, in order.
RETURNS_ARGUMENTS = {"apex.amp.initialize": ("models", "optimizers")}

# Callables that wrap a module and return one that stands for the same parameters.
WRAPS_MODULE = frozenset(
    {
        "torch.compile",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.jit.script",
    }
)
DATA_PARALLEL = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
# What runs a network on several GPUs in one call, and what scripts do that with by hand.
DATA_PARALLEL_CALL = "torch.nn.parallel.data_parallel"
REPLICATES = frozenset({"torch.nn.parallel.replicate", "torch.nn.parallel.parallel_apply"})
DISTRIBUTED_DATA_PARALLEL = frozenset(
    {"torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel"}
)
DISTRIBUTED_SAMPLER = frozenset(
    {"torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"}
)

# Callables that iterate over their first argument, one element for one.
ITERATES = frozenset(
    {
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "tqdm.notebook.tqdm",
        "tqdm.tqdm_notebook",
        "tqdm.autonotebook.tqdm",
        "tqdm.std.tqdm",
        "tqdm.rich.tqdm",
        "rich.progress.track",
        "fastprogress.progress_bar",
        "fastprogress.fastprogress.progress_bar",
        "progressbar.progressbar",
        "alive_progress.alive_it",
        "qqdm.qqdm",
        "qqdm.notebook.qqdm",
        "itertools.islice",
        "itertools.cycle",
        "itertools.takewhile",
    }
)
# Classes whose objects do so by a method: `Progress().track(loader)`, or `ProgressBar()(loader)`.
ITERATING = {
    "progressbar.ProgressBar": "__call__",
    "progressbar.bar.ProgressBar": "__call__",
    "rich.progress.Progress": "track",
}
TQDM = frozenset(name for name in ITERATES if name.startswith("tqdm.")) | {
    "tqdm.trange",
    "tqdm.auto.trange",
    "tqdm.tnrange",
}
# What star imports give that are written in scripts: `from tqdm import *`.
STARRED = {
    module: frozenset(name.rpartition(".")[2] for name in TQDM if name.rpartition(".")[0] == module)
    for module in ("tqdm", "tqdm.auto", "tqdm.notebook")
}
# Objects that show what they are given, and keep none of it to go on with.
SHOWS = TQDM | {"logging.getLogger"}
ITERATES_BUILTIN = frozenset({"iter", "list", "tuple", "reversed", "sorted"})

# Iterables that yield no data.
NOT_DATA = frozenset(
    "itertools.count itertools.repeat itertools.product tqdm.trange tqdm.auto.trange tqdm.notebook.trange tqdm.tnrange "
    "six.moves.range six.moves.xrange".split()
)
# Libraries whose objects are no loaders, whatever is iterated over: arrays, lists of files, tensors.
NO_LOADERS = ("numpy.", "pandas.", "glob.", "os.", "pathlib.", "random.", "torch.")

# The signature of torch.utils.data.DataLoader (documented order).
LOADER_SIGNATURE = (
    "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
    "worker_init_fn multiprocessing_context generator"
).split()

# Answers to "is there an accelerator?".
COUNTS = frozenset({"torch.cuda.device_count", "torch.accelerator.device_count", "torch.xpu.device_count"})
AVAILABLE = frozenset(
    {
        "torch.cuda.is_available",
        "torch.cuda.device_count",
        "torch.accelerator.is_available",
        "torch.accelerator.device_count",
        "torch.backends.mps.is_available",
        "torch.backends.mps.is_built",
        "torch.xpu.is_available",
        "torch.has_mps",
        "torch.backends.cuda.is_built",
    }
)

# Signs that a script already trains on several processes.
DISTRIBUTED = {
    "torch.nn.parallel.DistributedDataParallel": "DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel": "DistributedDataParallel",
    "torch.distributed": "torch.distributed",
    "torch.utils.data.distributed.DistributedSampler": "DistributedSampler",
    "torch.utils.data.DistributedSampler": "DistributedSampler",
    "torch.multiprocessing.spawn": "torch.multiprocessing.spawn",
    "torch.multiprocessing.Process": "torch.multiprocessing.Process",
    "torch.distributed.fsdp": "FSDP",
    "horovod": "Horovod",
    "mpi4py": "mpi4py",
    "deepspeed": "DeepSpeed",
    "fairscale": "FairScale",
    "apex.parallel": "apex.parallel",
    "colossalai": "Colossal-AI",
    "ray.train": "Ray Train",
    "torch_xla": "torch_xla",
}
# Loaders of libraries that make their batches themselves, in ways that indices of samples do not tell, and what to do.
OWN_LOADERS = {
    "texar": "texar's iterators cut their batches themselves: make a torch.utils.data.DataLoader of their data set",
    "dgl": "DGL shares out what it samples itself: give its loader use_ddp=True in a job of several processes",
    "torch_geometric": "sharing out sampled graphs is for PyG: split its input_nodes by process, as its examples for "
    "several GPUs do",
    "torchtext": "torchtext's iterators are gone from newer versions: make a torch.utils.data.DataLoader",
}
# Libraries of simulated environments, whose data come step by step.
ENVIRONMENTS = frozenset("gym gymnasium gym_super_mario_bros pettingzoo stable_baselines3 dm_control procgen".split())
ACCELERATE = ("accelerate", "accelift")
FRAMEWORKS = {
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "lightning_fabric": "Lightning Fabric",
    "transformers.Trainer": "the transformers Trainer",
    "transformers.Seq2SeqTrainer": "the transformers Trainer",
    "trl": "TRL trainers",
    "ignite": "Ignite",
    "fastai": "fastai",
    "catalyst": "Catalyst",
    "skorch": "skorch",
    "composer": "Composer",
    "mmengine": "MMEngine",
    "detectron2": "Detectron2",
}

# The packages that something is known of: never the project's own, even if a copy of one lies in it.
PACKAGES = frozenset(
    name.partition(".")[0] for name in (*_ROLES, *_MODEL_FACTORIES, *ITERATES, *DISTRIBUTED, *ACCELERATE, *FRAMEWORKS)
)


@lru_cache(maxsize=4096)
def role(qualified: str) -> Role | None:
    """The role of what calling this library name returns, if it is known."""
    exact = _ROLES.get(qualified)
    if exact is not None:
        return exact
    module, _, name = qualified.rpartition(".")
    if name[:1].isupper():
        if module in ("torch.nn", "torch.nn.modules.loss") and name.endswith("Loss"):
            return Role.LOSS
        found = _ROLES.get(f"{module}.*")
        if found is not None and name not in _NOT_CLASSES:
            return found
    if qualified.startswith(_MODEL_FACTORIES) or (
        qualified.startswith("transformers.") and qualified.endswith(_MODEL_METHODS) and "Model" in qualified
    ):
        return Role.MODEL
    return None


# Modules whose names their package offers, too: people import either.
_DATA = frozenset({"torch.utils.data.dataset", "torch.utils.data.dataloader", "torch.utils.data.sampler"})
_PARALLEL = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.distributed"})
_OF_THEIR_OWN = frozenset({"torch.optim.lr_scheduler", "torch.optim.swa_utils", "torch.optim.optimizer"})


# Modules of transformers whose names it offers itself, under its first name, too.
_TRANSFORMERS = frozenset(
    "transformers.optimization transformers.trainer transformers.trainer_seq2seq pytorch_transformers "
    "pytorch_transformers.optimization".split()
)


_PYPLOT = ("matplotlib.pylab", "pylab")  # older names of matplotlib.pyplot, with numpy's in it


@lru_cache(maxsize=4096)
def canonical(qualified: str) -> str:
    """The name that a library documents for what lies in a module of its own, too: `torch.optim.adam.Adam`."""
    module, _, name = qualified.rpartition(".")
    if qualified in _PYPLOT:
        return "matplotlib.pyplot"
    if module in _PYPLOT:
        return f"matplotlib.pyplot.{name}"
    if name == "F" and module.startswith("torch."):  # `from torch.functional import F`
        return "torch.nn.functional"
    if module in _TRANSFORMERS:
        return f"transformers.{name}"
    if module == "pytorch_pretrained_bert.optimization":
        return f"pytorch_pretrained_bert.{name}"
    if module in _DATA:
        return f"torch.utils.data.{name}"
    if module in _PARALLEL:
        return f"torch.nn.parallel.{name}"
    package = module.rpartition(".")[0]
    if name[:1].isupper() and package == "torch.optim" and module not in _OF_THEIR_OWN:
        return f"torch.optim.{name}"
    if name[:1].isupper() and "torch.nn.modules" in (module, package):
        return f"torch.nn.{name}"
    return qualified


_NOT_CLASSES = frozenset({"Parameter", "ParameterList", "ParameterDict"})


@lru_cache(maxsize=1024)
def matches(qualified: str, names: tuple[str, ...] | frozenset[str]) -> str | None:
    """The listed name that `qualified` is, or lies under."""
    probe = qualified
    while probe:
        if probe in names:
            return probe
        probe = probe.rpartition(".")[0]
    return None


# Functions that write files, change folders or show something.
SIDE_EFFECTS = frozenset(
    """
    os.makedirs os.mkdir os.remove os.unlink os.rename os.replace os.rmdir os.removedirs os.symlink
    os.link os.mknod os.mkfifo
    shutil.rmtree shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move
    matplotlib.pyplot.savefig matplotlib.pyplot.show matplotlib.pyplot.imsave matplotlib.pyplot.pause
    torchvision.utils.save_image torchvision.io.write_png torchvision.io.write_jpeg torchvision.io.write_video
    imageio.imwrite imageio.imsave imageio.mimsave imageio.v2.imwrite imageio.v2.mimsave scipy.misc.imsave
    cv2.imwrite cv2.imshow skimage.io.imsave scipy.io.savemat soundfile.write torchaudio.save
    numpy.save numpy.savez numpy.savez_compressed numpy.savetxt json.dump pickle.dump joblib.dump yaml.dump
    yaml.safe_dump toml.dump simplejson.dump ujson.dump dill.dump cloudpickle.dump scipy.sparse.save_npz
    torch.onnx.export torch.jit.save safetensors.torch.save_file safetensors.torch.save_model onnx.save onnx.save_model
    tifffile.imwrite tifffile.imsave SimpleITK.WriteImage omegaconf.OmegaConf.save plotly.io.write_image
    plotly.io.write_html
    imageio.v3.imwrite scipy.io.wavfile.write librosa.output.write_wav nibabel.save faiss.write_index
    spectral.save_rgb spectral.envi.save_image spectral.io.envi.save_image spectral.envi.save_classification
    spectral.io.envi.save_classification medpy.io.save nrrd.write pydicom.dcmwrite hdf5storage.savemat
    torchvision.io.write_file
    open3d.io.write_point_cloud open3d.io.write_triangle_mesh open3d.io.write_image shutil.make_archive
    imageio.mimwrite imageio.volwrite imageio.volsave imageio.mvolwrite imageio.mvolsave imageio.v2.mimwrite
    imageio.v2.volwrite imageio.v2.volsave imageio.v2.mvolwrite imageio.v2.mvolsave skvideo.io.vwrite cv2.imwritemulti
    matplotlib.image.imsave mcubes.export_obj mcubes.export_mesh mcubes.export_off pytorch3d.io.save_obj
    pytorch3d.io.save_ply meshio.write kornia.io.write_image itk.imwrite mmcv.imwrite mmcv.dump mmengine.dump
    tikzplotlib.save scipy.io.mmwrite dgl.save_graphs
    tensorboard_logger.configure tensorboard_logger.log_value tensorboard_logger.log_histogram
    tensorboard_logger.log_images
    sys.stdout.write sys.stdout.flush sys.stderr.write pprint.pprint
    mlflow.log_metric mlflow.log_metrics mlflow.log_param mlflow.log_params mlflow.log_artifact mlflow.log_artifacts
    mlflow.log_figure mlflow.log_image mlflow.log_text mlflow.log_dict mlflow.set_tag mlflow.set_tags
    mlflow.set_experiment mlflow.start_run mlflow.end_run mlflow.pytorch.log_model mlflow.pytorch.save_model
    """.split()
)
# Of these, what does no harm on every process.
HARMLESS_EVERYWHERE = frozenset(
    "sys.stdout.write sys.stdout.flush sys.stderr.write pprint.pprint matplotlib.pyplot.show matplotlib.pyplot.pause "
    "cv2.imshow".split()
)
# Functions that read the file that their first argument names.
READS = frozenset(
    """
    numpy.load numpy.loadtxt pandas.read_csv joblib.load torch.jit.load safetensors.torch.load_file
    onnx.load onnx.checker.check_model onnxruntime.InferenceSession
    PIL.Image.open imageio.imread imageio.v2.imread cv2.imread matplotlib.pyplot.imread skimage.io.imread
    """.split()
)
# Those that ask something of the file that their first argument names, and fail where it is not there.
ASKS_OF = frozenset("os.path.getsize os.path.getmtime os.path.getctime os.path.getatime os.stat".split())
# Layers of libraries whose call, on scores and labels, is a sum over the samples unless its `reduction` says otherwise.
SUMMED_LOSSES = frozenset({"torchcrf.CRF"})
# What searches for hyperparameters, and which of its arguments it calls for each trial.
SEARCHES: dict[str, tuple[int | None, str]] = {
    "optuna.create_study.optimize": (0, "func"),
    "optuna.study.create_study.optimize": (0, "func"),
    "optuna.load_study.optimize": (0, "func"),
    "optuna.study.load_study.optimize": (0, "func"),
    "wandb.agent": (1, "function"),
    "hyperopt.fmin": (0, "fn"),
    "ray.tune.run": (0, "run_or_experiment"),
    "ray.tune.Tuner": (0, "trainable"),
    "ray.tune.tuner.Tuner": (0, "trainable"),
    "skopt.gp_minimize": (0, "func"),
    "skopt.forest_minimize": (0, "func"),
    "skopt.gbrt_minimize": (0, "func"),
    "skopt.dummy_minimize": (0, "func"),
    "bayes_opt.BayesianOptimization": (0, "f"),
}
# What asks which files there are in a folder.
LISTS = frozenset("os.listdir os.scandir os.walk glob.glob glob.iglob".split())
# Methods that read a file they are given the name of (pycocotools, faiss, tokenizers, configparser, gensim, wandb).
READ_METHODS = frozenset(
    "load loadRes load_file read read_file from_file from_json from_pretrained load_model add_file".split()
)
# Those whose second argument it is: `PeftModel.from_pretrained(base, folder)`.
READS_SECOND = ("peft.PeftModel", "peft.peft_model.PeftModel")
# Functions that run a command of the system.
COMMANDS = frozenset("os.system subprocess.run subprocess.call subprocess.check_call subprocess.Popen".split())
# Methods of data frames, figures, models, films and profilers that write a file (pandas, matplotlib, plotly,
# transformers, moviepy, torch.profiler).
WRITES = frozenset(
    "savefig to_csv to_json to_pickle to_excel to_parquet to_hdf to_feather to_latex to_html to_markdown to_stata "
    "to_sql write_html write_image save_pretrained save_vocabulary imsave write_text write_bytes mkdir rmdir touch "
    "unlink symlink_to tofile write_videofile write_gif export_chrome_trace".split()
)
# Functions that open files, as open() does: at which place and by which name they are told the mode, and what it is if
# they are not told.
OPENS: dict[str, tuple[int | None, str, str]] = {
    **dict.fromkeys(
        "io.open gzip.open bz2.open lzma.open codecs.open tarfile.open zipfile.ZipFile h5py.File wave.open "
        "tables.open_file netCDF4.Dataset zarr.open numpy.lib.format.open_memmap".split(),
        (1, "mode", "r"),
    ),
    "pandas.ExcelWriter": (None, "mode", "w"),
    "pandas.HDFStore": (1, "mode", "a"),
    "shelve.open": (1, "flag", "c"),
    "dbm.open": (1, "flag", "r"),
}
# What the flags of databases are as modes of open().
FLAGS = {"c": "a", "n": "w", "w": "r+"}
# The flags of os.open() that let a file be written to.
WRITING_FLAGS = frozenset("O_WRONLY O_RDWR O_CREAT O_APPEND O_TRUNC".split())
# What opens databases that are read or written.
DATABASES = frozenset(
    "sqlite3.connect psycopg2.connect psycopg.connect pymysql.connect MySQLdb.connect mysql.connector.connect "
    "duckdb.connect sqlalchemy.create_engine".split()
)
# What opens stores on disk, and the methods of these, or of their parts, that write.
STORES = {
    **dict.fromkeys(("lmdb.open", "lmdb.Environment"), frozenset("put putmulti replace delete drop".split())),
    **dict.fromkeys(
        ("tinydb.TinyDB", "dataset.connect"),
        frozenset(
            "insert insert_multiple insert_many update update_multiple update_many upsert upsert_many remove delete "
            "truncate drop drop_table drop_tables".split()
        ),
    ),
    "numpy.memmap": frozenset({"flush", "fill"}),
    "numpy.load": frozenset({"flush", "fill"}),
}
# Methods that write, under names that other objects' methods have, too: of objects of these libraries.
WRITES_OF = {
    **dict.fromkeys(("rename", "replace"), ("pathlib.",)),
    "save": ("PIL.", "matplotlib.animation.", "torch.jit.", "tokenizers.", "gensim."),
    "write": ("xml.etree.ElementTree.",),
    "export": ("trimesh.",),
    "render": ("graphviz.", "torchviz."),
}
# What makes a picture of PIL of a tensor: functions, and classes whose objects are called.
PICTURE = "PIL.Image.Image"
MAKES_PICTURES = frozenset(
    f"torchvision.transforms.{name}"
    for name in "functional.to_pil_image v2.functional.to_pil_image ToPILImage v2.ToPILImage".split()
)
# Functions that open a file for an object which writes it bit by bit.
WRITERS = frozenset("cv2.VideoWriter imageio.get_writer imageio.v2.get_writer".split())
# Methods of a library's objects that give another one of their kind.
ALIKE = {
    "pathlib.": frozenset("joinpath resolve absolute expanduser with_suffix with_name with_stem relative_to".split()),
    "PIL.": frozenset("convert resize crop copy rotate transpose filter point quantize".split()),
}
# Functions that fetch files, and the keyword by which data sets do.
DOWNLOADS = frozenset(
    """
    torchvision.datasets.utils.download_url torchvision.datasets.utils.download_and_extract_archive
    urllib.request.urlretrieve wget.download gdown.download gdown.cached_download torch.hub.download_url_to_file
    huggingface_hub.snapshot_download huggingface_hub.hf_hub_download kaggle.api.dataset_download_files
    kagglehub.dataset_download datasets.load_dataset nltk.download nltk.downloader.download spacy.cli.download
    stanza.download opendatasets.download
    """.split()
)
# Those that fetch a file again, though it is there.
FETCHES_AGAIN = frozenset("urllib.request.urlretrieve wget.download gdown.download".split())
# Modules whose data sets are fetched, or processed into files, when they are made.
FETCHES = ("torch_geometric.datasets.", "ogb.graphproppred.", "ogb.nodeproppred.", "ogb.linkproppred.")

# Errors that come on all processes at once, or have nothing to do with computing.
RAISED_BY_ALL = frozenset(
    "KeyboardInterrupt StopIteration SystemExit GeneratorExit ImportError ModuleNotFoundError".split()
)
