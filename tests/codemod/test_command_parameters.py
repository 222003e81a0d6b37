"""Devices that are parameters of functions which a library runs by the command line: click, typer, fire."""

from __future__ import annotations

import pytest

from tests.codemod.scripts import TRAINS, converted, findings, script, unchanged

MODEL = """\
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
MADE = 'Accelerator(\n        cpu=device == "cpu",\n'
NOTHING = dict.fromkeys(
    ("device", "loader", "model", "optimizer", "epochs", "loop", "move", "forward", "backward", "step"), ""
)


def command(header: str, run: str, first: str = "", last: str = "", imports: str = "") -> str:
    """A script whose training is a function that the command line runs."""
    before = f"    {first}\n" if first else ""
    after = f"    {last}\n" if last else ""
    return script(
        **{
            **NOTHING,
            "imports": f"import click\nimport fire\nimport typer\n{imports}",
            "definitions": "def evaluate(model, device):\n    return model(torch.ones(2, 8, device=device)).sum()",
            "before": f"{header}\n{before}{MODEL}{TRAINS}{after}",
            "after": f'if __name__ == "__main__":\n    {run}',
        }
    )


CLICK = '@click.command()\n@click.option("-d", "--device", default={0})\ndef main(device):'


@pytest.mark.parametrize(
    ("header", "run"),
    [
        (CLICK.format('"cuda"'), "main()"),
        (CLICK.format('"cuda:1"'), "main()"),
        (CLICK.format('"cpu"'), "main()"),
        (CLICK.format('"cuda", type=click.Choice(["cpu", "cuda"])'), "main()"),
        ('def main(device="cuda"):', "fire.Fire(main)"),
        ('def main(device: str = "cuda:0"):', "fire.Fire({'train': main})"),
        ('def main(device: str = typer.Option("cuda", "--device")):', "typer.run(main)"),
        ('app = typer.Typer()\n\n\n@app.command()\ndef main(device: str = "cuda"):', "app()"),
    ],
)
def test_the_option_still_means_the_cpu(header: str, run: str) -> None:
    text = converted(command(header, run))
    assert MADE in text
    assert ".to(device)" not in text
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


@pytest.mark.parametrize(
    ("default", "first"),
    [
        ('"cuda"', "device = torch.device(device)"),
        ('"cuda:1"', "device = torch.device(device)"),
        ("None", 'device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))'),
        ('"auto"', 'if device == "auto":\n        device = "cuda" if torch.cuda.is_available() else "cpu"'),
        ("None", 'if device is None:\n        device = "cuda" if torch.cuda.is_available() else "cpu"'),
    ],
)
def test_what_it_is_made_into_is_the_device_of_the_process(default: str, first: str) -> None:
    text = converted(command(f"def main(device={default}):", "fire.Fire(main)", first, "evaluate(model, device)"))
    assert MADE in text
    assert first not in text
    assert "    device = accelerator.device" in text
    assert "evaluate(model, device)" in text


@pytest.mark.parametrize("default", ['"cuda:0"', '"cuda:1"'])
def test_one_gpu_of_several_is_not_handed_on(default: str) -> None:
    text = converted(command(CLICK.format(default), "main()", last="evaluate(model, device)"))
    assert "    evaluate(model, accelerator.device)" in text


@pytest.mark.parametrize(
    ("first", "last", "codes"),
    [
        ("device = torch.device(device)", "evaluate(model, device)", []),
        ("", "noise = torch.randn(16, 8, device=device)", []),
        ("", 'settings = {"device": device}', ["DEV-LEFT"]),
    ],
)
def test_one_gpu_of_several_is_told_of_where_it_stays(first: str, last: str, codes: list[str]) -> None:
    assert findings(command('def main(device="cuda:0"):', "fire.Fire(main)", first, last)) == codes


def test_an_option_that_is_one_gpu_of_several_is_not_handed_on() -> None:
    """Every process would make tensors on the first GPU, and its network is on another."""
    parser = (
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--device", default="cuda:0")\n'
        "args = parser.parse_args()"
    )
    text = converted(
        script(
            imports="import argparse",
            definitions="def evaluate(model, device):\n    return model(torch.ones(2, 8, device=device)).sum()",
            device=parser,
            model="model = Net().to(args.device)",
            move="x, y = x.to(args.device), y.to(args.device)",
            after="evaluate(model, args.device)",
        )
    )
    assert 'Accelerator(\n    cpu=args.device == "cpu",' in text
    assert "evaluate(model, accelerator.device)" in text


@pytest.mark.parametrize(
    ("header", "run"),
    [
        ("def main(device):", "main(input())"),  # whoever calls it tells
        (CLICK.format('"cuda", callback=choose'), "main()"),
        (CLICK.format('"cuda", multiple=True'), "main()"),
        (CLICK.format("0, type=int"), "main()"),
        ('def main(device="cuda"):', "fire.Fire(main)\n    main(input())"),
        ('@click.command()\n@click.option("--device", "gpu", default="cuda")\ndef main(device):', "main()"),
    ],
)
def test_parameters_that_something_else_fills_are_not_known(header: str, run: str) -> None:
    assert unchanged(command(header, run)).code == "DEV-UNKNOWN"


def test_a_device_that_nothing_gives_another_stays_what_it_is() -> None:
    text = converted(command('def main(device="cuda"):', "main()", last="evaluate(model, device)"))
    assert "cpu=" not in text
    assert "evaluate(model, device)" in text


def test_a_function_that_the_command_line_names() -> None:
    text = converted(command("def fit(device='cuda'):", "fire.Fire()"))
    assert MADE in text
    assert text == converted(command("def fit(device='cuda'):", "fire.Fire(fit)")).replace("Fire(fit)", "Fire()")
    method = command(
        "class Fit:\n    @staticmethod\n    def run():\n        fit('cuda')\n\n\ndef fit(device):", "fire.Fire()"
    )
    assert "accelerator.backward(loss)" in converted(method)


@pytest.mark.parametrize("run", ["fire.Fire(evaluate)", "fire.Fire({'evaluate': evaluate})", "print(fire.Fire)"])
def test_one_that_it_cannot_name(run: str) -> None:
    assert unchanged(command("def fit(device='cuda'):", run)).code == "NO-ENTRY"
