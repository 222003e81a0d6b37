"""Files that are named after samples: each process has its own, and writes them itself."""

from __future__ import annotations

import textwrap

import pytest
from scripts import converted, findings, script

SLOTS = {
    "imports": "import os\nimport numpy as np\nfrom pathlib import Path",
    "from_imports": "from torchvision.utils import save_image\nfrom other import Named",
    "data": "data = Named()",
    "loop": "for i, (x, y, names) in enumerate(loader):",
    "forward": "optimizer.zero_grad()\nout = model(x)\nloss = F.cross_entropy(out, y)",
}
GUARDED = "if accelerator.is_main_process:\n    "


def kept(lines: str) -> str:
    """A script that keeps something of each sample that it trains on."""
    inner = textwrap.indent(lines, "    ")
    return script(**SLOTS, batch_end=f"for j, (one, name) in enumerate(zip(out, names)):\n{inner}")


def made_of(lines: str) -> str:
    """What becomes of the lines that keep it."""
    return textwrap.dedent(converted(kept(lines)).partition("zip(out, names)):\n")[2]).strip()


@pytest.mark.parametrize(
    "line",
    [
        'save_image(one, os.path.join("out", name))',
        "np.save(f'out/{name}.npy', one.tolist())",
        "np.save('%s.npy' % name.split('/')[-1], one.tolist())",
        'path = os.path.splitext(os.path.basename(name))[0] + ".pt"\ntorch.save(one, path)',
        '(Path("out") / f"{names[j].item()}.txt").write_text("x")',
        'with open("{}.txt".format(names[j]), "w") as file:\n    file.write("x")',
    ],
)
def test_what_is_named_after_a_sample_is_left_to_the_process_that_has_it(line: str) -> None:
    assert made_of(line) == line
    assert "SAVE-RACE" not in findings(kept(line))


@pytest.mark.parametrize(
    "line",
    [
        "save_image(one, f'out/{i}_{j}.png')",
        "np.save('last.npy', one.tolist())",
        "save_image(x, f'out/{loss.item()}.png')",
        "save_image(x, f'out/{len(names)}.png')",
        "np.save(f'out/{epoch}.npy', [name])",
    ],
)
def test_what_is_named_otherwise_is_the_main_process_s(line: str) -> None:
    loop = "for j, (one, name) in enumerate(zip(out, names)):"
    around = f"{GUARDED}{loop}\n        {line}\n"
    assert textwrap.indent(around, " " * 8) in converted(kept(line))


def test_a_folder_that_is_named_after_a_sample_is_made_by_all() -> None:
    assert made_of("os.mkdir(f'out/{name}')") == "os.makedirs(f'out/{name}', exist_ok=True)"


def test_what_every_process_evaluates_is_written_once() -> None:
    loop = "for x, y, names in DataLoader(data, batch_size=4):\n    out = model(x.to(device))\n    {}"
    text = converted(script(**SLOTS, after=loop.format("np.save(f'{names[0]}.npy', out.tolist())")))
    assert "    if accelerator.is_main_process:\n        np.save(f'{" in text


@pytest.mark.parametrize(
    "lines",
    [
        "np.save(f'{y[j].item()}.npy', one.tolist())",
        "with open(f'{y[j].item()}.txt', 'a') as file:\n    file.write(name)",
        "for k in y.unique():\n    np.save(f'{k.item()}.npy', x.tolist())",
        "np.save(f'{y[j].item()}_{j}.npy', one.tolist())",
    ],
)
def test_what_is_named_after_a_label_is_warned_of(lines: str) -> None:
    assert made_of(lines) == lines
    assert "SAVE-RACE" in findings(kept(lines))


def test_a_label_beside_the_name_of_the_sample_is_none() -> None:
    assert "SAVE-RACE" not in findings(kept("np.save(f'{y[j].item()}_{name}.npy', one.tolist())"))
