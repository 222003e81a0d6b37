"""Evaluations, and what happens at the end of an epoch."""

from __future__ import annotations

from tests.generated.chance import Chance, Stage, block
from tests.generated.pieces.data import Data
from tests.generated.pieces.devices import Device, moved
from tests.generated.pieces.models import Model, Schedule

# Before the loop, in it, and after it, where $metric is bound: the lower, the better.
_COUNTS = {
    "dataset": (
        "correct = 0",
        "correct += ($out.argmax(1) == $y).sum().item()",
        "$metric = 1 - correct / len($test_loader.dataset)",
    ),
    "total": (
        "correct, total = 0, 0",
        "_, predicted = torch.max($out, 1)\ntotal += $y.size(0)\ncorrect += (predicted == $y).sum().item()",
        "$metric = 1.0 - correct / total",
    ),
    "tensor": (
        "correct = 0",
        "correct += $out.max(1)[1].eq($y).sum()",
        "$metric = 1 - correct.item() / len($test_loader.dataset)",
    ),
    "view": (
        "correct = 0",
        "predicted = $out.argmax(dim=1, keepdim=True)\ncorrect += predicted.eq($y.view_as(predicted)).sum().item()",
        "$metric = -100.0 * correct / len($test_loader.dataset)",
    ),
    "lists": (
        "truth, guess = [], []",
        "guess.extend($out.argmax(1).cpu().numpy())\ntruth.extend($y.cpu().numpy())",
        "$metric = 1 - accuracy_score(truth, guess)",
    ),
    "tolist": (
        "truth, guess = [], []",
        "guess += $out.argmax(1).tolist()\ntruth += $y.tolist()",
        "$metric = 1 - f1_score(truth, guess, average='macro')",
    ),
    "cat": (
        "truth, guess = [], []",
        "guess.append($out.argmax(1))\ntruth.append($y)",
        "$metric = 1 - (torch.cat(guess) == torch.cat(truth)).float().mean().item()",
    ),
    "numpy": (
        "guess = []",
        "guess.append($out.detach().cpu().numpy())",
        "$metric = float(np.abs(np.concatenate(guess)).mean())",
    ),
    "confusion": (
        "confusion = torch.zeros(4, 4)",
        "for t, p in zip($y.view(-1), $out.argmax(1).view(-1)):\n    confusion[t.long(), p.long()] += 1",
        "$metric = 1 - (confusion.diag().sum() / confusion.sum()).item()",
    ),
    "per-class": (
        "hits, seen = [0.0] * 4, [0] * 4",
        "same = ($out.argmax(1) == $y).squeeze()\nfor j in range(len($y)):\n"
        "    hits[$y[j]] += same[j].item() if len($y) > 1 else same.item()\n    seen[$y[j]] += 1",
        "$metric = 1 - sum(h / max(s, 1) for h, s in zip(hits, seen)) / 4",
    ),
    "top-k": (
        "correct = total = 0",
        "top = $out.topk(2, dim=1).indices\ncorrect += (top == $y.unsqueeze(1)).any(1).sum().item()\n"
        "total += $y.shape[0]",
        "$metric = 1 - correct / total",
    ),
    "batch-mean": (
        "accuracies = []",
        "accuracies.append(($out.argmax(1) == $y).float().mean().item())",
        "$metric = 1 - sum(accuracies) / len(accuracies)",
    ),
}
_LOSSES = {
    "loss-mean": ("total = 0.0", "total += {loss}.item()", "$metric = total / len($test_loader)"),
    "loss-samples": (
        "total = 0.0",
        "total += {loss}.item() * $x.size(0)",
        "$metric = total / len($test_loader.dataset)",
    ),
    "loss-list": ("losses = []", "losses.append({loss}.item())", "$metric = float(np.mean(losses))"),
    "loss-last": ("", "$loss = {loss}", "$metric = $loss.item()"),
    "loss-meter": ("meter = AverageMeter()", "meter.update({loss}.item(), len($y))", "$metric = meter.avg"),
    "outputs": ("every = []", "every.append($out)", "$metric = torch.cat(every).abs().mean().item()"),
}
_BOTH = {
    "loss-and-count": (
        "total, correct = 0, 0",
        "total += {loss}.item() * len($x)\ncorrect += ($out.argmax(1) == $y).sum().item()",
        '$metric = total / len($test_loader.dataset)\nprint("accuracy %d/%d" % (correct, len($test_loader.dataset)))',
    ),
}
_MORE_COUNTS = {
    "matrix": (
        "truth, guess = [], []",
        "truth.append($y.cpu().numpy())\nguess.append($out.argmax(dim=-1).cpu().numpy())",
        "counts = confusion_matrix(np.concatenate(truth), np.concatenate(guess))\n"
        "$metric = float(1 - counts.trace() / counts.sum())",
    ),
    "report": (
        "truth, guess = np.array([]), np.array([])",
        "truth = np.append(truth, $y.numpy())\nguess = np.append(guess, $out.argmax(1).numpy())",
        "scores = precision_recall_fscore_support(truth, guess, average='macro', zero_division=0)\n"
        "$metric = float(1 - scores[2])",
    ),
    "auc": (
        "truth, scores = [], []",
        "truth += ($y > 0).long().tolist()\nscores += torch.softmax($out, 1)[:, 1:].sum(1).tolist()",
        "$metric = 1 - roc_auc_score([0, 1, *truth], [0, 1, *scores])",
    ),
    "perplexity": (
        "total, words = 0.0, 0",
        "total += F.cross_entropy($out, $y, reduction='sum').item()\nwords += $y.numel()",
        "$metric = math.exp(total / words)",
    ),
    "running-mean": (
        "average, n = 0.0, 0",
        "hits = ($out.argmax(1) == $y).float().mean().item()\naverage = (average * n + hits) / (n + 1)\nn += 1",
        "$metric = 1 - average",
    ),
    "zip-lists": (
        "pairs = []",
        "pairs.extend(zip($y.tolist(), $out.argmax(1).tolist()))",
        "$metric = 1 - sum(int(a == b) for a, b in pairs) / len(pairs)",
    ),
    "positives": (
        "tp = fp = fn = 0",
        "guess = $out.argmax(1)\ntp += ((guess == 1) & ($y == 1)).sum().item()\n"
        "fp += ((guess == 1) & ($y != 1)).sum().item()\nfn += ((guess != 1) & ($y == 1)).sum().item()",
        "$metric = 1 - 2 * tp / max(2 * tp + fp + fn, 1)",
    ),
    "bincount": (
        "counts = torch.zeros(16)",
        "counts += torch.bincount($y * 4 + $out.argmax(1), minlength=16)",
        "$metric = 1 - (counts.view(4, 4).diag().sum() / counts.sum()).item()",
    ),
    "wrong": (
        "wrong = []",
        "same = $out.argmax(1) == $y\nwrong += $out[~same].abs().sum(1).tolist()",
        "$metric = float(len(wrong))",
    ),
    "function": (
        "total, n = 0.0, 0",
        "total += hit_rate($out, $y) * len($y)\nn += len($y)",
        "$metric = 1 - total / n",
    ),
    "sums": (
        "sums = defaultdict(float)\ncount = 0",
        "sums['hits'] += ($out.argmax(1) == $y).sum().item()\nsums['size'] += $out.abs().mean(1).sum().item()\n"
        "count += $y.size(0)",
        "$metric = 1 - sums['hits'] / count\nprint({name: round(value / count, 5) for name, value in sums.items()})",
    ),
}
_NUMBERS = {
    "r2": (
        "truth, guess = [], []",
        "truth.append($y)\nguess.append($out.nan_to_num().clamp(-99, 99))",
        "$metric = float(-r2_score(torch.cat(truth).numpy(), torch.cat(guess).detach().numpy()))",
    ),
    "rmse": (
        "squares, n = 0.0, 0",
        "squares += (($out - $y) ** 2).sum().item()\nn += $y.size(0)",
        "$metric = (squares / n) ** 0.5",
    ),
    "mae": (
        "errors = []",
        "errors.append(($out - $y).abs().view(-1))",
        "$metric = torch.cat(errors).mean().item()",
    ),
    "library": (
        "errors, n = 0.0, 0",
        "guess = $out.detach().nan_to_num().clamp(-99, 99)\n"
        "errors += mean_squared_error($y.numpy(), guess.numpy()) * len($y)\nn += len($y)",
        "$metric = errors / n",
    ),
    "largest": (
        "worst = 0.0",
        "worst = max(worst, ($out - $y).abs().max().item())",
        "$metric = worst",
    ),
}
_BINARY = {
    "threshold": (
        "correct = total = 0",
        "guess = (torch.sigmoid($out) > 0.5).float()\ncorrect += (guess == $y).sum().item()\ntotal += $y.size(0)",
        "$metric = 1 - correct / total",
    ),
    "round": (
        "correct = 0",
        "correct += $out.sigmoid().round().eq($y).sum().item()",
        "$metric = 1 - correct / len($test_loader.dataset)",
    ),
    "auc": (
        "truth, scores = [], []",
        "truth += $y.view(-1).tolist()\nscores += $out.view(-1).tolist()",
        "$metric = float(1 - roc_auc_score([0.0, 1.0, *truth], [-9.0, 9.0, *scores]))",
    ),
    "dice": (
        "both = sizes = 0.0",
        "guess = ($out > 0).float()\nboth += (guess * $y).sum().item()\nsizes += guess.sum().item() + $y.sum().item()",
        "$metric = 1 - 2 * both / max(sizes, 1.0)",
    ),
}
_IDS = {
    "tokens": (
        "correct = total = 0",
        "known = $y != 0\ncorrect += ($out.argmax(-1)[known] == $y[known]).sum().item()\ntotal += known.sum().item()",
        "$metric = 1 - correct / total",
    ),
    "rows": (
        "exact = 0",
        "exact += ($out.argmax(-1) == $y).all(dim=1).sum().item()",
        "$metric = 1 - exact / len($test_loader.dataset)",
    ),
}
_MEASURES = {
    "classes": {**_COUNTS, **_MORE_COUNTS, **_BOTH},
    "numbers": _NUMBERS,
    "binary": _BINARY,
    "ids": _IDS,
}
HIT_RATE = """
def hit_rate(out, y):
    return (out.argmax(dim=1) == y).float().mean().item()
"""
_HEADERS = (
    "for {batch} in $test_loader:",
    "for {batch} in $test_loader:",
    "for i, {tuple} in enumerate($test_loader):",
    "for {batch} in tqdm($test_loader, disable=True):",
)
_GUARDS = ("with torch.no_grad():", "with torch.no_grad():", "@torch.no_grad()", "with torch.inference_mode():", "")


def evaluation(
    chance: Chance, device: Device, data: Data, forward: str, labels: str, loss: str, mode: str = "$model.eval()"
) -> Stage:
    """One pass over the test data, by an expression of the output and one of the loss; it binds `$metric`."""
    measures = {**_LOSSES, **_MEASURES.get(labels, {})}
    before, inside, after = (part.replace("{loss}", loss) for part in chance.named("metric", measures))
    header = chance.of(*_HEADERS)
    opened = ""
    if data.batch == "dict":
        header, opened = header.format(batch="batch", tuple="batch"), '$x, $y = batch["x"], batch["y"]'
    else:
        header = header.format(batch="$x, $y", tuple="($x, $y)")
    body = block(opened, moved(chance, device, "$x", "$y"), f"$out = {forward}", inside, depth=1)
    guard = chance.of(*_GUARDS)
    loop = block(header, body)
    if guard.startswith("with"):
        loop = block(guard, block(loop, depth=1))
    code = block(mode if chance.maybe(0.8) else "", before, loop, after)
    decorator = guard if guard.startswith("@") else ""
    return Stage("evaluate", code, binds=("metric",), decorator=decorator)


STOPPER = """
class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.count, self.best, self.stop = patience, 0, None, False

    def __call__(self, value, model):
        if self.best is None or value < self.best:
            self.best, self.count = value, 0
            torch.save(model.state_dict(), "stopper.pt")
        else:
            self.count += 1
            self.stop = self.count >= self.patience
"""
_ENDS = {
    "nothing": ("", ""),
    "print": ("", 'print("epoch", $epoch, $metric)'),
    "formatted": ("", 'print("Epoch {}: {:.4f}".format($epoch, $metric))'),
    "history": ("$history = []", "$history.append($metric)\nif $epoch == 1:\n    print($history)"),
    "best": (
        "$best = 1e9",
        'if $metric < $best:\n    $best = $metric\n    torch.save($model.state_dict(), "best.pt")',
    ),
    "best-deep": (
        "$best, $kept = 1e9, None",
        "if $metric < $best:\n    $best = $metric\n    $kept = copy.deepcopy($model.state_dict())\nprint($best)",
    ),
    "checkpoint": (
        "",
        'torch.save({"epoch": $epoch, "model": $model.state_dict(), "optimizer": $optimizer.state_dict()}, "last.pt")',
    ),
    "early": (
        "$best, $bad = 1e9, 0",
        "if $metric < $best:\n    $best, $bad = $metric, 0\nelse:\n    $bad += 1\n"
        '    if $bad >= 2:\n        print("stop")\n        break',
    ),
    "csv": ("", 'with open("log.csv", "a") as fh:\n    fh.write("%d,%.6f\\n" % ($epoch, $metric))'),
    "top": (
        "$best, $epoch_of_best = 1e9, -1",
        "if $metric < $best:\n    $best, $epoch_of_best = $metric, $epoch\n"
        '    torch.save({"model": $model.state_dict(), "best": $best}, "best.pt")\n'
        'print("best", $best, "at", $epoch_of_best)',
    ),
    "stopper": (
        "$stopper = EarlyStopping(patience=1)",
        "$stopper($metric, $model)\nif $stopper.stop:\n    print('early')\n    break",
    ),
    "restored": (
        "$best, $kept = float('inf'), {k: v.clone() for k, v in $model.state_dict().items()}",
        "if $metric <= $best:\n    $best = $metric\n"
        "    $kept = {k: v.clone() for k, v in $model.state_dict().items()}\nelse:\n    $model.load_state_dict($kept)",
    ),
    "numbered": ("", 'torch.save($model.state_dict(), f"model_{$epoch}.pt")'),
    "folder": (
        'os.makedirs("out", exist_ok=True)',
        'torch.save($model.state_dict(), os.path.join("out", "model.pt"))',
    ),
}
_FINALS = {
    "nothing": "",
    "save": 'torch.save($model.state_dict(), "final.pt")',
    "done": 'print("done")',
    "sum": "print(sum(p.sum().item() for p in $model.parameters()))",
    "weights": "print($model.head.weight[0, :2])",
    "reload": 'torch.save($model.state_dict(), "final.pt")\n$model.load_state_dict(torch.load("final.pt"))',
    "predict": "$model.eval()\nwith torch.no_grad():\n    print($model(torch.ones(1, 6)).shape)",
    "norm": 'print("parameters", sum(p.numel() for p in $model.parameters()))',
    "whole": 'torch.save($model, "whole.pt")',
}


def epoch_end(chance: Chance, schedule: Schedule) -> tuple[str, Stage]:
    """What is done after each epoch, and what has to be bound before the first."""
    made, code = chance.named("end", _ENDS, {"print": 3})
    bound = Stage("", made).mentioned
    updates = tuple(name for name in ("best", "kept", "bad", "epoch_of_best") if name in bound)
    parts = [schedule.epoch, code]
    inline = "break" in code
    return made, Stage("finish", block(*parts), updates=updates, inline=inline)


def final(chance: Chance, model: Model, labels: str) -> Stage:
    """What is done in the end."""
    plain = model.forward == "$model($x)" and labels != "ids"
    choices = {
        name: code
        for name, code in _FINALS.items()
        if (model.parts or ".head" not in code) and (plain or "$model(" not in code)
    }
    return Stage("conclude", chance.named("final", choices, {"nothing": 3, "done": 2}))
