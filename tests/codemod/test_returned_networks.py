"""Networks that the function which trains them makes and returns: who gets them has the prepared ones."""

from __future__ import annotations

import pytest
from scripts import convert, converted, findings, script, unchanged

TRAIN = """\
def train(loader, epochs):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    {made}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    {before}
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return {returned}


def test(net, loader, device):
    net.eval()
    right = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        right += (net(x).argmax(1) == y).sum().item()
    return right
"""
SLOTS = {"device": "", "model": "", "optimizer": "", "epochs": ""}
SLOTS |= dict.fromkeys(("loop", "move", "forward", "backward", "step"), "")
USED = "print(test(net, test_loader, device))"


def trains(
    call: str, made: str = "net = Net().to(device)", before: str = "", returned: str = "net, device", used: str = USED
) -> str:
    """A script that has a function make, train and return a network, and evaluates it."""
    return script(
        **SLOTS,
        definitions=TRAIN.format(made=made, before=before or "pass", returned=returned),
        before=f"test_loader = DataLoader(data, batch_size=16)\n{call}\n{used}",
    )


@pytest.mark.parametrize(
    ("call", "returned"),
    [
        ("net, device = train(loader, 3)", "net, device"),
        ("device = torch.device('cuda')\nnet = train(loader, 3)", "net"),
        ("net, device = train(loader, 3)\nnet, device = train(loader, 4)", "net, device"),
    ],
)
def test_a_network_that_the_function_which_trains_it_returns(call: str, returned: str) -> None:
    text = trains(call, returned=returned)
    output = converted(text)
    assert "    net = Net()\n" in output
    assert "    net, optimizer = accelerator.prepare(net, optimizer)\n" in output
    assert "accelerator.gather_for_metrics(" in output
    assert output.count("prepare(") == 2  # loaders, where they are made
    assert [code for code in findings(text) if code != "METRIC-TRAIN"] == []


def test_it_is_unwrapped_where_it_is_saved() -> None:
    text = trains("net, device = train(loader, 3)", used=f"{USED}\ntorch.save(net.state_dict(), 'net.pt')")
    assert "accelerator.save(accelerator.unwrap_model(net).state_dict(), 'net.pt')" in converted(text)


@pytest.mark.parametrize(
    ("call", "slots"),
    [
        # another network may be in the variable
        ("net = Net()\nif len(data) > 3:\n    net, device = train(loader, 3)", {}),
        # returned before the training in some runs
        ("net, device = train(loader, 3)", {"before": "if epochs == 0:\n        return net, device"}),
        # made under a condition
        ("net, device = train(loader, 3)", {"made": "net = None\n    if epochs:\n        net = Net().to(device)"}),
    ],
)
def test_networks_that_may_not_be_the_prepared_one(call: str, slots: dict[str, str]) -> None:
    assert unchanged(trains(call, **slots)).code == "PREP-NO-POINT"


def test_a_function_that_only_makes_it_prepares_nothing() -> None:
    definitions = "def make():\n    net = Net()\n    return net\n"
    text = script(definitions=definitions, model="model = make().to(device)")
    result = convert(text)
    assert result.output is not None
    assert b"model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in result.output


KEEP = "def keep(net):\n    torch.save(net.state_dict(), 'net.pt')\n"


@pytest.mark.parametrize(
    "used",
    [
        "net = train(loader, 3)\nkeep(net)",
        "keep(train(loader, 3))",
        "net = train(loader, 3)\nkeep(net)\nother = train(loader, 4)\nkeep(other)",
        "for fold in range(3):\n    net = train(loader, 3)\n    keep(net)",
    ],
)
def test_it_is_unwrapped_in_what_is_called_with_it(used: str) -> None:
    text = trains("device = torch.device('cuda')", returned="net", used=used)
    output = converted(f"{text}".replace("def test(", f"{KEEP}\n\ndef test("))
    assert "    accelerator.save(accelerator.unwrap_model(net).state_dict(), 'net.pt')\n" in output


def test_it_is_unwrapped_in_a_function_that_another_one_calls_with_it() -> None:
    main = "def main(loader):\n    net = train(loader, 3)\n    keep(net)\n\n\ndef test("
    text = trains("device = torch.device('cuda')", returned="net", used="main(loader)")
    output = converted(text.replace("def test(", f"{KEEP}\n\n{main}"))
    assert "    accelerator.save(accelerator.unwrap_model(net).state_dict(), 'net.pt')\n" in output


@pytest.mark.parametrize(
    "used",
    [
        "net = Net()\nkeep(net)\nother = train(loader, 3)",  # before, and another one
        "if len(data) > 3:\n    net = train(loader, 3)\nelse:\n    keep(Net())",
    ],
)
def test_what_is_called_before_has_another_network(used: str) -> None:
    text = trains("device = torch.device('cuda')", returned="net", used=used)
    output = converted(text.replace("def test(", f"{KEEP}\n\ndef test("))
    assert "    accelerator.save(net.state_dict(), 'net.pt')\n" in output


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ("torch.save(train(loader, 1).state_dict(), 'a.pt')", ["train(loader, 1)"]),
        ("print(train(loader, 1).layer.weight)", ["train(loader, 1)"]),
        ("print(net.layer.weight)\nother = train(loader, 1)\nprint(other.layer.weight)", ["net", "other"]),
        ("best = train(loader, 1) if len(loader) > 3 else net\nprint(best.layer.weight)\ntrain(loader, 1)", ["best"]),
        ("net = net.to('cpu')\nprint(net.layer.weight)\ntrain(loader, 1)", ["net"]),
        ("for k in range(3):\n    third = train(loader, k)\n    torch.save(third.state_dict(), f'{k}.pt')", ["third"]),
    ],
)
def test_each_call_gives_a_prepared_one(used: str, expected: list[str]) -> None:
    text = converted(trains("net = train(loader, 1)", returned="net", used=used))
    assert [f"unwrap_model({one})" in text for one in expected] == [True] * len(expected)
    assert text.count("unwrap_model") == len(expected)


@pytest.mark.parametrize(
    "used",
    ["first = Net()\nprint(first.layer.weight)\ntrain(loader, 1)", "print(Net().layer.weight)\ntrain(loader, 1)"],
)
def test_what_no_call_has_prepared_is_no_wrapper(used: str) -> None:
    assert "unwrap_model" not in converted(trains("net = train(loader, 1)", returned="net", used=used))


@pytest.mark.parametrize("away", ["net.to('cpu')", "net = net.to('cpu')", "net = net.cpu()"])
def test_a_network_that_left_its_device_goes_back(away: str) -> None:
    used = f"for k in (1, 2):\n    net = train(loader, k)\n    {away}\n    net.to(device)\n    net(data[:2][0])"
    device = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    text = converted(trains(device, returned="net", used=used))
    assert "    net.to(device)\n" in text
