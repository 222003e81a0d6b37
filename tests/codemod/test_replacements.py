"""Optimizers and loaders that take the place of others once training has begun: each is prepared where it is made."""

from __future__ import annotations

import pytest
from scripts import converted, findings, lifted, script, unchanged

ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)"
PREPARED = "optimizer = accelerator.prepare(optimizer)"
SECOND = """\
for epoch in range(2):
    for x, y in loader:
        {move}
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        {backward}
        optimizer.step()
"""
PLAIN = SECOND.format(move="x, y = x.to(device), y.to(device)", backward="loss.backward()")
LIFTED = SECOND.replace("        {move}\n", "").format(backward="accelerator.backward(loss)")
LOADER = "loader = DataLoader(data, batch_size=8, shuffle=True)"


@pytest.mark.parametrize(
    "between",
    [
        ADAM,
        f"{ADAM}\nscheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)",
        f"{ADAM}\nif len(loader) > 3:\n    optimizer.param_groups[0]['lr'] = 0.1",
    ],
)
def test_the_optimizer_of_a_second_stage(between: str) -> None:
    text = script(after=f"{between}\n{PLAIN}")
    assert converted(text) == lifted(after=f"{between}\n{PREPARED}\n{LIFTED}")
    assert findings(text) == []


def test_an_optimizer_that_takes_over_between_epochs() -> None:
    end = "if epoch == 1:\n    {}\n"
    text = script(epoch_end=end.format(ADAM))
    assert converted(text) == lifted(epoch_end=end.format(f"{ADAM}\n    {PREPARED}"))


def test_what_is_told_of_it_comes_before_it_is_prepared() -> None:
    end = f"if epoch == 1:\n    {ADAM}\n    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n"
    text = script(epoch_end=f"{end}\n    size = len(loader)")
    assert converted(text) == lifted(epoch_end=f"{end}    {PREPARED}\n\n    size = len(loader)")


def test_an_optimizer_of_a_second_stage_in_functions() -> None:
    train = "def train(model, optimizer, loader, {}):\n" + "".join(f"    {line}\n" for line in PLAIN.splitlines())
    calls = "train(model, optimizer, loader, device)\n{}\ntrain(model, optimizer, loader, device)"
    empty = {"epochs": "", "loop": "", "move": "", "forward": "", "backward": "", "step": ""}
    output = converted(script(definitions=train.format("device"), after=calls.format(ADAM), **empty))
    assert f"{ADAM}\n{PREPARED}\ntrain(model, optimizer, loader, accelerator)\n" in output


def test_a_loader_that_takes_over() -> None:
    made = f"{LOADER}\nloader = accelerator.prepare(loader)"
    output = converted(script(epoch_end=LOADER))
    assert "".join(f"    {line}\n" for line in made.splitlines()) in output
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in output


@pytest.mark.parametrize(
    "end",
    [
        "optimizer = torch.optim.Adam(model.parameters()) if epoch else optimizer",
        "first, optimizer = optimizer, torch.optim.Adam(model.parameters())",
        "first = optimizer = torch.optim.Adam(model.parameters())",
        "optimizer = [torch.optim.Adam(model.parameters())][0]",
        "loader = DataLoader(data, batch_size=8) if epoch else loader",
        "loader, kept = DataLoader(data, batch_size=8), loader",
        "kept = loader\nloader = DataLoader(data, batch_size=8)\nif epoch:\n    loader = kept",
        "model = Net().to(device)\noptimizer = torch.optim.Adam(model.parameters())",
        "optimizer = torch.optim.Adam([*model.parameters(), *Net().to(device).parameters()])",
    ],
)
def test_what_else_takes_the_place_of_something(end: str) -> None:
    assert unchanged(script(epoch_end=end)).code == "PREP-NO-POINT"
