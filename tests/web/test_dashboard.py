"""The dashboard in a real browser, against the real service."""

import subprocess
import time
from urllib.parse import quote

import pytest
from conftest import HERE
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from service import play

HOSTILE = '<script>document.title="broken"</script><img src=x onerror=alert(1)>'


MODEL = {"name": "shop", "policy": "mcnb", "options": {"gamma": 0.3, "width": 20},
         "dimension": 16, "epsilon": 0.3, "waitingSeconds": 2}


def test_every_page_shows_the_figures_of_the_service(start, screen):
    service = start()
    service.ask("POST", "/v1/models", MODEL)
    events = play(service, "shop", users=12, rounds=240)
    time.sleep(2.2)  # the waiting time
    screen.open(service)
    screen.wait("240 in all")
    screen.wait("Live", "header")
    screen.wait("Mean reward", ".cards")
    screen.expect_labels()
    screen.shot("overview-1400-light")
    screen.find("a[href='#/models/shop']").click()
    screen.wait("12 users who have learned")
    screen.wait("user-11")
    screen.wait("user-0")
    screen.expect_labels()
    screen.shot("model-1400-light")
    screen.find(f"a[href='#/models/shop/events/{events[-1]}']").click()
    screen.wait("Why this answer")
    screen.wait("Estimate")
    screen.shot("event-1400-light")
    screen.find("a[href='#/models/shop/users/user-11']").click()
    screen.wait("User user-11")
    screen.wait("of this user alone")
    screen.wait("Estimate")
    for action in ("tea", "bread", "butter", "salt"):
        screen.wait(action, ".explain")
    screen.shot("user-1400-light")
    screen.find("a[href='#/models/shop/learners/11']").click()
    screen.wait("Learner 11, ")
    screen.open(service, "try/shop")
    WebDriverWait(screen.browser, 20).until(
        lambda browser: browser.find_element(By.NAME, "user").get_attribute("value"))
    screen.find("form button").click()
    screen.wait("with probability")
    screen.shot("try-1400-light")
    assert service.ask("GET", "/v1/models/shop")["rounds"] == 240
    screen.expect_no_complaints()
    for part, name, words in (("", "overview", "Mean reward"),
                              ("models/shop", "model", "12 users who have learned"),
                              (f"models/shop/events/{events[-1]}", "event", "Why this answer"),
                              ("models/shop/users/user-11", "user", "of this user alone")):
        for width, dark in ((400, False), (1400, True)):
            screen.open(service, part, width, dark)
            screen.wait(words)
            screen.expect_to_fit()
            screen.shot(f"{name}-{width}-{'dark' if dark else 'light'}")
    screen.expect_no_complaints()


def test_challengers_are_shown_with_their_intervals(start, screen, npm):
    service = start()
    service.ask("POST", "/v1/models", MODEL)
    for name, policy in (("linear", "linucb"), ("clusters", "club")):
        service.ask("POST", "/v1/models/shop/challengers", {"name": name, "policy": policy})
    screen.open(service, "models/shop")
    screen.wait("not known yet")
    screen.wait("too early to say")
    play(service, "shop", users=6, rounds=120)
    time.sleep(2.2)  # the waiting time
    service.ask("POST", "/v1/models/shop/rank", {"userId": "user-1", "actions": [{"id": "tea"}]})
    screen.open(service, "models/shop", width=400)
    screen.wait("120", "section:has(.intervals)")
    for one in service.ask("GET", "/v1/models/shop")["challengers"]:
        screen.wait(one["name"])
        screen.wait(f"{one['estimate']['value']:.3f} ({one['estimate']['low']:.3f} to")
    screen.expect_to_fit()
    screen.expect_accessible(npm)
    screen.shot("challengers-400-light")
    screen.expect_no_complaints()


POINT_OF_THE_MAP = """
    const canvas = document.querySelector(".map canvas");
    const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 3; i < image.data.length; i += 4) {
      if (image.data[i] > 0) return [(i >> 2) % canvas.width, Math.floor((i >> 2) / canvas.width)];
    }"""


def test_the_mouse_on_the_map_shows_who_agrees(start, screen):
    service = start()
    service.ask("POST", "/v1/models", MODEL)
    play(service, "shop", users=10, rounds=100)
    screen.open(service, "models/shop")
    screen.wait("10 users who have learned")
    x, y = screen.browser.execute_script(POINT_OF_THE_MAP)
    screen.point_at(".map canvas", x + 2, y + 2)
    screen.wait("others agree about all recent actions")
    screen.shot("map-hover-1400-light")
    screen.find(".map canvas").click()  # at its middle, away from the point
    screen.point_at(".legend", 1, 1)
    screen.wait("10 users who have learned")
    screen.expect_no_complaints()


def test_a_span_of_time_counts_when_its_last_decision_does(tmp_path):
    """Rewards come before defaults: the mean of a span that still waits would be too high."""
    script = tmp_path / "means.cjs"
    source = HERE.parent.parent / "web" / "src" / "means.ts"
    subprocess.run(["esbuild", source, "--bundle", "--format=cjs", f"--outfile={script}"],
                   check=True, capture_output=True)
    found = subprocess.run(
        ["node", "-e", f"""
         const {{ settledBefore }} = require("{script}");
         const spans = [0, 60000, 120000].map((time) => ({{ time }}));
         console.log(settledBefore(spans, 150000, 60).map((span) => span.time).join(" "));"""],
        check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["0", "60000"]


def test_an_event_with_slots_shows_them_all(start, screen):
    service = start()
    service.ask("POST", "/v1/models", MODEL)
    service.ask("POST", "/v1/models/shop/rank", {
        "eventId": "page-1", "userId": "ann", "slots": [{"id": "top"}, {"id": HOSTILE[:60]}],
        "actions": [{"id": name, "features": {"name": name}} for name in ("tea", "bread", "jam")]})
    service.ask("POST", "/v1/models/shop/events/page-1/reward",
                {"slot": HOSTILE[:60], "value": 0.75})
    for width in (1400, 400):
        screen.open(service, "models/shop/events/page-1", width=width)
        screen.wait("Each probability is that given the slots before it.")
        screen.wait("0.75")
        screen.wait(HOSTILE[:60])
        screen.expect_to_fit()
        screen.expect_labels()
        screen.shot(f"slots-{width}-light")
    screen.wait("Samples that move")
    assert "\x1f" not in screen.text()
    screen.open(service, "models/shop")
    screen.wait("page-1, slot top")
    screen.expect_no_complaints()


def test_every_page_is_accessible(start, screen, npm):
    service = start()
    service.ask("POST", "/v1/models", MODEL)
    events = play(service, "shop", users=4, rounds=40)
    for part, words in (("", "Mean reward"), ("models/shop", "4 users who have learned"),
                        (f"models/shop/events/{events[-1]}", "Samples that move"),
                        ("models/shop/users/user-3", "of this user alone"),
                        ("try/shop", "Decide")):
        for dark in (False, True):
            screen.open(service, part, dark=dark)
            screen.wait(words)
            screen.expect_accessible(npm)
    screen.browser.get(service.url + "/docs")
    screen.wait("Schemas")
    screen.expect_accessible(npm)
    screen.shot("docs-1400-dark")


def test_new_decisions_appear_without_a_reload(start, screen):
    service = start()
    screen.open(service)
    screen.wait("Live", "header")
    screen.wait("0 in all")
    play(service, "default", users=3, rounds=30)
    screen.wait("30 in all", seconds=10)
    service.ask("POST", "/v1/models", {"name": "new", "dimension": 4})
    screen.wait("new", ".cards")
    screen.expect_no_complaints()


def test_with_keys_the_page_asks_for_one_and_keeps_it_to_itself(start, screen, keys):
    service = start(*keys)
    play(service, "default", users=2, rounds=4, key="admin-secret")
    screen.open(service)
    screen.wait("A key, please")
    screen.shot("key-1400-light")
    screen.find("input[name=key]").send_keys("wrong" + Keys.ENTER)
    screen.wait("not one of this service")
    screen.find("input[name=key]").send_keys("decide-secret" + Keys.ENTER)
    screen.wait("does not allow")
    screen.find("input[name=key]").send_keys("read-secret" + Keys.ENTER)
    screen.wait("4 in all")
    screen.wait("Live", "header")
    stored = screen.browser.execute_script(
        "return [document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage),"
        " location.href, performance.getEntriesByType('resource').map(e => e.name).join()]")
    assert not any("secret" in one for one in stored)
    screen.open(service, "models/default")  # a deep link; the key went with the page
    screen.wait("A key, please")
    screen.find("input[name=key]").send_keys("read-secret" + Keys.ENTER)
    epsilon = screen.find("input[name=epsilon]")
    epsilon.clear()
    epsilon.send_keys("0.25" + Keys.ENTER)
    screen.wait("an admin key is needed")
    assert service.ask("GET", "/v1/models/default", key="read-secret")["epsilon"] == 0.1
    screen.browser.find_element(By.XPATH, "//header//button[text()='Key']").click()
    screen.find("input[name=key]").send_keys("admin-secret" + Keys.ENTER)
    epsilon = screen.find("input[name=epsilon]")
    epsilon.clear()
    epsilon.send_keys("0.25" + Keys.ENTER)
    screen.wait("epsilon = 0.25")
    assert service.ask("GET", "/v1/models/default", key="read-secret")["epsilon"] == 0.25
    screen.expect_no_complaints("401", "403")


def test_ids_are_texts_whatever_they_contain(start, screen):
    service = start()
    service.ask("POST", "/v1/models/default/rank", {
        "eventId": HOSTILE, "userId": HOSTILE,
        "actions": [{"id": HOSTILE}, {"id": "</textarea><b>bold</b>"}]})
    service.ask("POST", f"/v1/models/default/events/{quote(HOSTILE, safe='')}/reward",
                {"value": 1, "rewardId": HOSTILE})
    for part in ("models/default", f"models/default/users/{quote(HOSTILE, safe='')}",
                 f"models/default/events/{quote(HOSTILE, safe='')}", "try/default"):
        screen.open(service, part, width=400)
        screen.wait("onerror" if part != "try/default" else "Decide")
        screen.wait("Live", "header")
        assert "broken" not in screen.browser.title.replace(HOSTILE, "")
        assert not screen.browser.find_elements(By.CSS_SELECTOR, "main script, main img, main b")
        screen.expect_to_fit()
        screen.expect_no_complaints()
    screen.shot("hostile-400-light")


def test_the_page_survives_a_server_that_goes_away_and_returns(start, screen):
    service = start()
    play(service, "default", users=2, rounds=10)
    screen.open(service)
    screen.wait("10 in all")
    service.kill()
    screen.wait("The server is away", "header")
    again = start(port=service.port)
    screen.wait("Live", "header")
    play(again, "default", users=2, rounds=0)
    again.ask("POST", "/v1/models/default/rank",
              {"userId": "late", "actions": [{"id": "a"}, {"id": "b"}]})
    screen.wait("11 in all")


def test_the_keyboard_reaches_everything(start, screen):
    service = start()
    service.ask("POST", "/v1/models", MODEL)
    play(service, "shop", users=4, rounds=24)
    screen.open(service, "models/shop")
    screen.wait("4 users who have learned")
    body = screen.browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert screen.browser.switch_to.active_element.text == "Skip to the content"
    screen.find(".map canvas").send_keys(Keys.ARROW_RIGHT)
    screen.wait("rewards learned")
    screen.find(".map canvas").send_keys(Keys.ESCAPE)
    screen.wait("4 users who have learned")
    screen.find("input[name=id]").send_keys("user-1" + Keys.ENTER)
    screen.wait("of this user alone")
    assert screen.browser.current_url.endswith("#/models/shop/users/user-1")
    screen.expect_no_complaints()
