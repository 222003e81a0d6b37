"""The reasons for which scripts are left alone."""

from __future__ import annotations

from dataclasses import dataclass

from accelift_codemod.plan import Finding, Severity


class Refused(Exception):
    """The script is left alone: the finding says why."""

    def __init__(self, finding: Finding, loader: str = "") -> None:
        super().__init__(str(finding))
        self.finding = finding
        self.loader = loader  # the library function that would have to give a DataLoader


@dataclass(frozen=True)
class Reason:
    """Why a kind of script is left alone, for `accelift rule` and the documentation."""

    code: str
    title: str
    text: str


REASONS = (
    Reason(
        "ALREADY-ACCELERATE",
        "uses Accelerate already",
        "The script imports accelift or accelerate: there is nothing left to convert.",
    ),
    Reason(
        "ALREADY-DISTRIBUTED",
        "is distributed already",
        "The script manages several processes itself, with more than what can be put in the accelerator's place: "
        "DeepSpeed, Horovod, FSDP, or calls of torch.distributed beyond a process group, DistributedDataParallel, "
        "DistributedSampler, ranks, barriers and sums. Take its own distribution out first, or keep it. Or it makes no "
        "process group as far as can be seen, and still does something with other processes without asking for one.",
    ),
    Reason(
        "FRAMEWORK",
        "trains through a framework",
        "Lightning, the transformers Trainer and their like distribute the training themselves: their own settings and "
        "a launcher are all that is needed.",
    ),
    Reason(
        "NO-TRAINING",
        "does not train",
        "Nothing in the file runs a backward pass: a library module, a data set, inference only. Convert the script "
        "that trains.",
    ),
    Reason(
        "NO-ENTRY",
        "is not run by itself",
        "The file defines functions or classes that train, but nothing in it runs them. The Accelerator is created "
        "where the program starts: convert the script that imports this file. Where no script of a run is known to "
        "run them, a last line says so: a script may choose a trainer by a name that only its settings have.",
    ),
    Reason(
        "ENTRY-BY-NAME",
        "runs what trains by a name",
        "Nothing in the file runs what trains but what looks a function up among its globals by a name that only shows "
        "when the script runs (`globals()[name]()`, `eval(name)()`): it cannot be told which functions run, and with "
        "which models, optimizers and loaders. A name that is written out is followed.",
    ),
    Reason(
        "LOOP-IN-CLASS",
        "trains inside a class",
        "The training loop is a method of a class whose attributes cannot be followed. They can where the script "
        "keeps each object of the class in one variable and only asks it for attributes and methods, calls it, or sets "
        "numbers in it, also in functions that are handed it, make it, or are called back by it: no property "
        "that computes, no other place for the object. Of classes derived from one base, objects of one may be made, "
        "or the script chooses once between them. A network may train itself in one method, which calls `self(x)` and "
        "runs once for each object: that method gets a variable for what wraps the network. One that steps in other "
        "methods than that with the loop, runs its layers one by one, or is trained again, needs its loop in a "
        "function.",
    ),
    Reason(
        "DATA-UNSHARDED",
        "has no DataLoader to share out",
        "No DataLoader feeds the training loop, so every process would train on the same data: the same result, no "
        "faster. Batches that the loop picks itself, by slices or drawn indices, are shared out with --shard-manual "
        "where that is proved right, and so are the rows of data that every step computes on all of; else put the data "
        "behind a torch.utils.data.DataLoader. A step on one large graph has no rows to share out: keep it on one "
        "process.",
    ),
    Reason(
        "LOADER-UNKNOWN",
        "draws batches from something unknown",
        "The training loop iterates over an object that the tool cannot prove to be a torch DataLoader (made in "
        "another file, or by a library it does not know), so it cannot be shared out among processes.",
    ),
    Reason(
        "OPT-UNKNOWN",
        "hides what its optimizer trains",
        "The networks whose parameters an optimizer updates cannot be told, so they cannot be prepared; or, for "
        "Accelerate, it is stepped by methods of its own, which the one that prepare returns there does not have.",
    ),
    Reason(
        "DDP-FREEPARAM",
        "trains parameters outside any module",
        "The optimizer updates tensors that belong to no nn.Module. Their gradients would not be averaged across "
        "processes, and the processes would silently drift apart. Put them into a module. What is made for each batch "
        "(noise that an attack finds, latent codes) needs no averaging, but the gradient of a mean loss over the "
        "samples of a share is larger than that over the whole batch.",
    ),
    Reason(
        "BWD-UNKNOWN",
        "trains without a backward pass that is seen",
        "A loop over batches steps an optimizer, or gives parameters their gradients, and runs no backward pass that "
        "can be seen: the gradients are computed by torch.autograd.grad or torch.func, and written by hand. Or it adds "
        "to a gradient, after the backward pass, what it computes from the batch. Gradients are averaged across "
        "processes in the backward pass, so how these become those of all processes is not known.",
    ),
    Reason(
        "BWD-CLOSURE",
        "steps by a closure",
        "An optimizer such as LBFGS calls the backward pass several times in a closure and decides by the loss it "
        "returns; that loss has to be averaged across processes. The bundled runtime does so for closures that are "
        "functions of the script and compute the gradients themselves; other closures are left alone, as is every "
        "closure with --target accelerate.",
    ),
    Reason(
        "PREP-NO-POINT",
        "has no place for prepare",
        "There is no single place after which every use of the model, optimizer and loaders sees the prepared objects. "
        "A loader that only evaluates and has none is left as it is.",
    ),
    Reason(
        "MODEL-PARALLEL",
        "computes on several GPUs in one process",
        "Parts of the computation are moved to GPUs with different numbers, by one process, or a network is copied to "
        "them by code of the script's own. Data parallelism gives each process one GPU, where a network that was cut "
        "in parts may not fit. Put the whole network on one device first, or keep the script.",
    ),
    Reason(
        "DEV-UNKNOWN",
        "chooses its device in a way that cannot be read",
        "It cannot be told when the script means the CPU and when the GPU, so the Accelerator cannot make the same "
        "choice.",
    ),
    Reason(
        "DEV-IMPORT-ORDER",
        "chooses a device while it is imported",
        "A file that the script imports chooses a device at its top level. The process has that device before the "
        "arguments are read by which the script may be kept on the CPU.",
    ),
    Reason(
        "SHARED-FILE",
        "would change a file that others use",
        "The conversion would change functions of a file, or of the script itself, that other scripts of the project "
        "import, too. Those call them as they are; they would have to be converted in the same way, and are not. (An "
        "evaluation that they use stays as it is, and every process makes all of it, if nothing else has to change.) "
        "It is a warning where the script is converted, and the files that it imports stay as they are.",
    ),
    Reason(
        "NOT-LINKED",
        "imports files that cannot be looked at with it",
        "The script and the project files that it imports are understood as one program, unless one of them sets a "
        "global of another from outside (`config.lr = 0.1`), or they are too many. Then the script is looked at alone: "
        "it is a warning where the script is converted, and the files that it imports stay as they are. A file that "
        "cannot be read, or does not parse, is passed over by itself.",
    ),
    Reason(
        "ACC-REACH",
        "needs the accelerator where it cannot be passed",
        "A function that trains, saves or evaluates has to be given the accelerator, but it is called in a way that "
        "cannot be changed safely: as a value, with * arguments, or from where the accelerator does not exist.",
    ),
    Reason("PYTHON2", "is Python 2", "The file is written in Python 2 syntax. Port it first (2to3, python-modernize)."),
    Reason(
        "NOT-PROVED",
        "was run, and is not proved to compute the same",
        "`convert --verify` ran the script before and after its conversion. What they computed differs, or rounding "
        "alone moves this training so far that nobody could tell a difference from it. Nothing is written. `accelift "
        "verify` shows all that was compared, and `accelift rule` explains the causes that it names.",
    ),
    Reason(
        "CLASH",
        "could not be rewritten",
        "The edits do not fit the way the code is laid out (several statements on one line, for instance), or the "
        "result failed one of the checks that every output has to pass. The file was left untouched.",
    ),
)


def refuse(code: str, line: int, message: str, remedy: str) -> Refused:
    """A refusal as an exception."""
    return Refused(Finding(code, Severity.ERROR, line, message, remedy))
