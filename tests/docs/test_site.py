"""The documentation site, built as CI builds it and opened in headless Chromium."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from urllib.parse import urldefrag, urljoin

import pytest
from support import pages

WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    " --disable-background-networking --disable-component-update --disable-dev-shm-usage"
)

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    pytest.importorskip("mkdocs", reason="needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command,
        cwd=pages.ROOT,
        env={**os.environ, "PYTHONPATH": str(pages.ROOT)},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Where the site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def paths(site):
    """Path of every page of the site."""
    found = [p.parent.relative_to(site).as_posix() for p in site.glob("**/index.html")]
    return sorted("" if path == "." else f"{path}/" for path in found)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Headless Chromium."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs selenium, of extra `test`")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    browser = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield browser
    browser.quit()


def resize(browser, width, height):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


@pytest.mark.parametrize("device", WIDTHS)
def test_no_page_has_an_error_in_the_console_or_is_wider_than_the_screen(
    device, browser, address, paths
):
    assert len(paths) > 20
    width, height = WIDTHS[device]
    for path in paths:
        resize(browser, width, height)
        browser.get(address + path)
        assert browser.get_log("browser") == [], path
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, path


def test_no_internal_link_or_image_is_dead_and_nothing_comes_from_elsewhere(
    browser, address, site, paths
):
    for path in paths:
        browser.get(address + path)
        loaded = browser.execute_script(
            "return performance.getEntriesByType('resource').map(entry => entry.name)"
        )
        assert [url for url in loaded if not url.startswith(address)] == [], path
        links = browser.execute_script(
            "return [...document.querySelectorAll('a[href], img[src]')]"
            ".map(node => node.getAttribute('href') ?? node.getAttribute('src'))"
        )
        for link in links:
            url, anchor = urldefrag(urljoin(address + path, link))
            if url.startswith(address):
                target = site / url.removeprefix(address)
                target = target / "index.html" if target.is_dir() else target
                assert target.is_file(), (path, link)
                assert not anchor or f'id="{anchor}"' in target.read_text(), (path, link)


@pytest.mark.parametrize("device", WIDTHS)
def test_the_search_finds_the_layer(device, browser, address):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    resize(browser, *WIDTHS[device])
    browser.get(address)
    wait = WebDriverWait(browser, 20)
    if device == "phone":
        browser.find_element(By.CSS_SELECTOR, "label.md-header__button[for=__search]").click()
    box = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    wait.until(lambda _: box.is_displayed() and box.is_enabled())
    box.send_keys("GradientReversal")
    # One question to the page, because the list of results changes while one types.
    layer = By.CSS_SELECTOR, ".md-search-result__link[href*='reference/layers/']"
    assert wait.until(lambda _: browser.find_elements(*layer))
