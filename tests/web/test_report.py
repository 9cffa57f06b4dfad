"""The page with the results of experiments, in a real browser."""

import os
import subprocess

import pytest

PLAN = """
title = "Two policies"
environments = ["synthetic:users=20:items=50"]
policies = ["linucb:users=each", "linucb", "random"]
rounds = 200
seeds = 2
"""

POINT_OF_A_CURVE = """
    const svg = document.querySelector("figure[data-axes] svg");
    const box = svg.getBoundingClientRect();
    const group = [...svg.querySelectorAll("g[id^=gnuplot_plot]")]
      .find(g => g.querySelector("title") && g.querySelector("path")?.getTotalLength() > 100);
    const path = group.querySelector("path");
    const point = path.getPointAtLength(path.getTotalLength() / 4);
    const scale = box.width / svg.viewBox.baseVal.width;
    return [point.x * scale, point.y * scale, group.querySelector("title").textContent];"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "two.toml").write_text(PLAN, encoding="utf-8")
    subprocess.run([os.environ["MCNB_BINARY"], "reproduce", "two.toml", "--output", "out"],
                   cwd=folder, check=True, capture_output=True)
    return (folder / "out" / "report.html").as_uri()


@pytest.mark.parametrize("width", (1400, 400))
def test_winners_come_first_and_curves_tell_their_numbers(page, screen, width):
    screen.visit(page, width)
    screen.wait("Winners", "h2")
    screen.expect_to_fit()
    captions = screen.browser.execute_script("""
        return [...document.querySelectorAll("figure")]
          .map(e => e.querySelectorAll("figcaption").length)""")
    assert captions and set(captions) == {1}
    x, y, name = screen.browser.execute_script(POINT_OF_A_CURVE)
    screen.point_at("figure[data-axes] svg", x, y)
    screen.wait(f"{name}: ", "figure[data-axes] output")
    screen.wait(" at ", "figure[data-axes] output")
    screen.shot(f"report-{width}")
    screen.expect_no_complaints()
