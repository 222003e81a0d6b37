"""Commands that an object of a library runs: of these, the ones that train are converted."""

from __future__ import annotations

import pytest
from accelift_codemod.plan import Outcome
from scripts import NO_BODY, TRAINS, added, convert, converted, script, unchanged

COMMANDS = """\
{made}


{decorated}
def fit(epochs: int = 2):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.arange(512.0).view(64, 8), torch.arange(64) % 3)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{loop}

{decorated}
def test(path: str):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    model.load_state_dict(torch.load(path))
    print(model(torch.zeros(1, 8).to(device)))
"""
GROUP = "@click.group()\ndef app():\n    pass"


def program(made: str, decorated: str, after: str = 'if __name__ == "__main__":\n    app()') -> str:
    definitions = COMMANDS.format(made=made, decorated=decorated, loop=TRAINS)
    return script(
        imports="import click\nimport typer\nimport flask\nimport celery\nimport lib",
        definitions=definitions,
        after=after,
        **NO_BODY,
    )


@pytest.mark.parametrize(
    ("made", "decorated"),
    [
        ("app = typer.Typer()", "@app.command()"),
        ("app = typer.Typer(no_args_is_help=True)", '@app.command("x")'),
        ("app = lib.App()", "@app.main"),
        (GROUP, "@app.command()\n@click.option('--epochs')"),
        ("app = click.Group()", "@app.command()"),
    ],
)
def test_commands_that_train(made: str, decorated: str) -> None:
    text = program(made, decorated)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in converted(text)
    evaluation = text[text.index("def test(") :]
    assert evaluation in converted(text)  # a program of its own


def test_a_command_that_calls_what_trains() -> None:
    text = program("app = typer.Typer()", "").replace(
        "\n\ndef test(", "\n\n@app.command()\ndef run():\n    fit(3)\n\n\ndef test("
    )
    assert any("accelerator.prepare(" in line for line in added(text))


@pytest.mark.parametrize(
    ("made", "decorated", "after"),
    [
        ("app = typer.Typer()", "@app.command()", ""),  # whoever imports it runs it
        ("app = typer.Typer()", "", "app()"),
        ("app = None", "@app.command()", "app()"),
        ("class App:\n    def command(self, f):\n        return f\napp = App()", "@app.command", "print(app)"),
        ("app = torch.no_grad", "@app.command", "print(app)"),
        ("app = flask.Flask(__name__)", '@app.route("/fit")', "app.run(port=8000)"),  # several servers of one port
        ("app = celery.Celery()", "@app.task", "app.worker_main()"),
    ],
)
def test_what_nothing_runs(made: str, decorated: str, after: str) -> None:
    result = convert(program(made, decorated, after))
    assert result.outcome is Outcome.NOTHING and [f.code for f in result.plan.findings] == ["NO-ENTRY"]


def test_two_commands_that_train_have_no_place_together() -> None:
    text = program("app = typer.Typer()", "@app.command()")
    again = text[text.index("@app.command()") : text.index("@app.command()\ndef test(")].replace("def fit", "def tune")
    assert (
        unchanged(text.replace("@app.command()\ndef test(", f"{again}\n\n@app.command()\ndef test(")).code
        == "PREP-NO-POINT"
    )


REGISTRY = """\
class Events:
    def __init__(self):
        self.kept = []

    def on(self, function):
        self.kept.append(function)
        return function

    def same(self, function):
        return function


def on(name):
    def keep(function):
        kept[name] = function
        return function
    return keep


kept = {}
events = Events()"""


@pytest.mark.parametrize(
    ("decorator", "runs"),
    [
        ("events.on", True),
        ("events.same", False),  # which gives it back, and nothing runs it
        ("on('end')", True),
        ("torch.no_grad()", False),  # which does not run it by itself
        ("register", False),  # of a library: as commands are
    ],
)
def test_functions_that_code_of_the_script_gets_by_decorating_them(decorator: str, runs: bool) -> None:
    say = f"@{decorator}\ndef say():\n    torch.save(model.state_dict(), 'm.pt')\n    print('saved')"
    text = script(from_imports="from registry import register", definitions=REGISTRY, before=say)
    saved = "accelerator.save(accelerator.unwrap_model(model).state_dict(), 'm.pt')\n    accelerator.print('saved')"
    assert (saved in converted(text)) == runs


def test_a_function_that_is_called_runs_where_it_is_called() -> None:
    definitions = "def keep(function):\n    kept.append(function)\n    return function\n\n\nkept = []\n\n\n"
    definitions += "@keep\ndef say():\n    print('said')"
    text = converted(script(definitions=definitions, after="say()"))
    assert text.index("def say") < text.index("accelerator = Accelerator(")
    assert "    accelerator.print('said')" in text
